"""The Litestar application behind the edge."""

from http import HTTPStatus
from typing import Any

from litestar import Litestar, Request, Response
from litestar.config.app import AppConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from streams_node.errors import InvalidRequest, MethodNotAllowed, Missing, StreamsError
from streams_node.http.context import Context
from streams_node.http.headers import CORS, SECURITY
from streams_node.http.problems import problem
from streams_node.http.resources import HANDLERS
from streams_node.http.routes import ROUTES


def application(context: Context) -> Litestar:
    """The routes that are not hot. Failures pass through: the edge is where they are handled."""
    return Litestar.from_config(
        AppConfig(
            route_handlers=list(HANDLERS),
            state=State({"context": context}),
            openapi_config=None,
            after_request=_with_shared_headers,
            exception_handlers={HTTPException: _as_ours, StreamsError: _ours},
        )
    )


def _with_shared_headers(response: Response[Any]) -> Response[Any]:
    for name, value in (*SECURITY, *CORS):
        response.headers[name.decode()] = value.decode()
    response.headers.setdefault("cache-control", "no-store")
    return response


def _ours(_: Request[Any, Any, State], failure: StreamsError) -> Response[bytes]:
    said = problem(failure)
    headers = {name.decode(): value.decode() for name, value in (*SECURITY, *CORS, *said.headers)}
    return Response(said.body, status_code=said.status, headers=headers, media_type="application/json")


def _as_ours(request: Request[Any, Any, State], failure: HTTPException) -> Response[bytes]:
    """Litestar's own refusals, in our shape."""
    match failure.status_code:
        case 404:
            return _ours(request, Missing("there is nothing at this address"))
        case 405:
            return _ours(request, MethodNotAllowed(request.method, _allowed(request.scope["path"])))
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return _ours(request, InvalidRequest("the request", "well formed", failure.detail))
        case _:
            raise failure


def _allowed(path: str) -> str:
    fixed = [route.methods for route in ROUTES if route.pattern == path]
    if fixed:
        return ", ".join(fixed)
    return "GET" if path.endswith("/streams") else "DELETE, GET, PUT"
