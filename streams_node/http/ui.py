"""The admin page: one small document, and the modules, styles and pictures that it loads.

Owns     the files of `ui/admin`, read once; their address, which has a hash over all of them in it.
Keeps    an address of a file never changes its bytes, so browsers may keep it for good; the document itself is asked
         for each time, by its tag. The modules name each other by relative addresses and so stay below one hash.
         Whatever the page shows comes from the HTTP interface, with the key that its reader types in: no route here
         knows anything of the node but where its streams are.
"""

import hashlib
import re
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath

from streams_node import __version__
from streams_node.errors import Missing
from streams_node.http.context import Context
from streams_node.http.headers import collected
from streams_node.http.write import public_base
from streams_node.protocol.etags import matches

Req = Request[Any, Any, State]
FOLDER = Path(__file__).resolve().parent.parent / "ui" / "admin"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_DOCUMENT = "index.html"
_DIGITS = 20  # of the hash in an address
_PORT = re.compile(r":\d+$")
_FOREVER = "public, max-age=31536000, immutable"


class Assets(NamedTuple):
    """The files by their names, and the hash over all of them."""

    digest: str
    files: dict[str, bytes]


class Place(msgspec.Struct):
    """What the page is told of its node, in a `meta` of the document."""

    version: str
    public: str  # where the streams are, if not where the page is
    key: bool  # whether requests need one


@get("/ui")
async def page(request: Req) -> Response[Any]:
    """The admin page."""
    context: Context = request.app.state.context
    place = _place(context, request)
    html = Template(_source()).substitute(
        assets=f"/ui/{assets().digest}", place=escape(msgspec.json.encode(place).decode(), quote=True)
    )
    body = html.encode("utf-8")
    headers = {
        "content-security-policy": _policy(place.public),
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return _tagged(request, body, "text/html; charset=utf-8", headers)


@get("/ui/{asset:path}")
async def asset_get(request: Req, asset: FromPath[str]) -> Response[Any]:
    """A file of the admin page."""
    digest, _, name = asset.lstrip("/").partition("/")
    known = assets()
    body = known.files.get(name) if digest == known.digest else None
    if body is None:
        raise Missing("there is no such file of the admin page; it was another version's if this was a link")
    return _tagged(request, body, TYPES[Path(name).suffix], {"cache-control": _FOREVER})


HANDLERS = (page, asset_get)


@cache
def assets() -> Assets:
    """All files that a browser may have."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    files = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}
    whole = hashlib.sha256()
    for name, body in files.items():
        whole.update(f"{name}\0{len(body)}\0".encode() + body)
    return Assets(whole.hexdigest()[:_DIGITS], files)


@cache
def _source() -> str:
    return (FOLDER / _DOCUMENT).read_text(encoding="utf-8")


def _place(context: Context, request: Req) -> Place:
    """With an operator's listener the page is there, and the streams are elsewhere."""
    settings = context.settings
    public = ""
    if settings.operator_port is not None:
        scope: Any = request.scope
        base = public_base(context, scope, collected(scope["headers"])).decode("latin-1")
        public = base if settings.public_url else f"{_PORT.sub('', base)}:{settings.port}"
    return Place(__version__, public, key=not settings.no_auth)


def _policy(public: str) -> str:
    """Only files of this page run, none of them can make markup out of text, and nothing leaves but to the node."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src 'self'{' ' + public if public else ''}; require-trusted-types-for 'script'; "
        "trusted-types 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _tagged(request: Req, body: bytes, media_type: str, headers: dict[str, str]) -> Response[Any]:
    tag = f'"{hashlib.sha256(body).hexdigest()[:_DIGITS]}"'
    headers["etag"] = tag
    asked = request.headers.get("if-none-match")
    if asked is not None and matches(asked, tag):
        return Response(None, status_code=304, headers=headers)
    return Response(body, headers={**headers, "content-type": media_type})
