"""What somebody sees who opens the node in a browser: where to begin, and the interface as a page.

The pages are one file each, with style and script in it, so that nothing has to be fetched and a policy can name
exactly what may run: the hashes of these two texts.
"""

import base64
import hashlib
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from litestar import Request, Response, get
from litestar.datastructures import State

from streams_node import __version__
from streams_node.http.context import Context
from streams_node.http.headers import collected
from streams_node.http.openapi import document
from streams_node.http.write import public_base

Req = Request[Any, Any, State]
_FOLDER = Path(__file__).resolve().parent.parent / "ui" / "docs"
_LINKS = {"ui": "/ui", "docs": "/docs", "openapi": "/openapi.json", "metrics": "/metrics"}
_PROBES = {"health": "/health", "ready": "/readyz"}
_TEXTS = {
    "ui": "the streams of this node, to look at and to work with",
    "docs": "the interface, to read and to try",
    "openapi": "the same as an OpenAPI document",
    "metrics": "what is counted",
    "health": "whether the process answers",
    "ready": "whether writes are taken",
}


@get("/")
async def root(request: Req) -> Response[Any]:
    """Where to begin: for a browser a page, for a program the same as JSON."""
    context: Context = request.app.state.context
    scope: Any = request.scope
    base = public_base(context, scope, collected(scope["headers"])).decode("latin-1")
    # Pages and metrics are the operator's; with a listener of its own they are not here.
    links = _PROBES if context.settings.operator_port is not None else {**_LINKS, **_PROBES}
    commands = _commands(base, with_key=not context.settings.no_auth)
    if "text/html" not in request.headers.get("accept", ""):
        said = {"name": "streams-node", "version": __version__, "links": links, "hint": commands[0]}
        return Response(said, headers={"vary": "Accept"})
    html = Template(_source("home.html")).substitute(
        style=_source("docs.css"),
        version=escape(__version__),
        commands=escape("\n".join(commands)),
        links="<br>".join(f'<a href="{path}">{path}</a> {_TEXTS[name]}' for name, path in links.items()),
    )
    return _page(html, scripts="'none'")


@get("/openapi.json")
async def openapi_json(request: Req) -> Response[bytes]:
    """The interface as an OpenAPI document."""
    # Made once, and when somebody asks: a start has better things to do.
    state = request.app.state
    if "openapi" not in state:
        state["openapi"] = document(
            handler for route in request.app.routes for handler in getattr(route, "route_handlers", ())
        )
    return Response(state["openapi"], media_type="application/json")


@get("/docs")
async def docs(request: Req) -> Response[Any]:  # noqa: ARG001 - Litestar's signature for a handler with an app behind it
    """The interface as a page; it asks for the document itself."""
    return _page(_docs_html(), scripts=_hash(_source("docs.js")))


HANDLERS = (root, openapi_json, docs)


def _commands(base: str, *, with_key: bool) -> list[str]:
    key = ' -H "Authorization: Bearer $STREAMS_API_KEY"' if with_key else ""
    stream = f"{base}/v1/stream/hello"
    return [
        f"curl -X PUT {stream}{key} -H 'Content-Type: text/plain'",
        f"curl {stream}{key} -H 'Content-Type: text/plain' -d 'hello, world'",
        f"curl -N '{stream}?offset=-1&live=sse'{key}",
    ]


@cache
def _docs_html() -> str:
    return Template(_source("docs.html")).substitute(style=_source("docs.css"), script=_source("docs.js"))


@cache
def _source(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _page(html: str, *, scripts: str) -> Response[Any]:
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {_hash(_source('docs.css'))}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"content-security-policy": policy, "referrer-policy": "no-referrer", "vary": "Accept"}
    return Response(html, media_type="text/html", headers=headers)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
