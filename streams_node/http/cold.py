"""The Litestar application behind the edge."""

from http import HTTPStatus
from typing import Any, NoReturn

from litestar import Litestar, Request, Response
from litestar.config.app import AppConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from streams_node.errors import InvalidRequest, MethodNotAllowed, Missing
from streams_node.http.context import Context
from streams_node.http.headers import CORS, SECURITY
from streams_node.http.resources import HANDLERS
from streams_node.http.routes import cold_route, reserved_routes


def application(context: Context) -> Litestar:
    """The routes that are not hot. Failures pass through: the edge is where they are handled."""
    return Litestar.from_config(
        AppConfig(
            route_handlers=list(HANDLERS),
            state=State({"context": context}),
            openapi_config=None,
            after_request=_with_shared_headers,
            exception_handlers={HTTPException: _as_ours, Exception: _passed_on},
        )
    )


def _with_shared_headers(response: Response[Any]) -> Response[Any]:
    for name, value in (*SECURITY, *CORS):
        response.headers[name.decode()] = value.decode()
    response.headers.setdefault("cache-control", "no-store")
    return response


def _passed_on(_: Request[Any, Any, State], failure: Exception) -> NoReturn:
    """Without this Litestar would answer in its own shape, and nothing would be logged or counted."""
    raise failure


def _as_ours(request: Request[Any, Any, State], failure: HTTPException) -> NoReturn:
    """Litestar's own refusals, as ours."""
    match failure.status_code:
        case 404:
            raise Missing("there is nothing at this address") from failure
        case 405:
            allowed = _allowed(request.scope["path"])
            if request.method in allowed.split(", "):  # of what is there; the path lacks something that it needs
                raise Missing("there is nothing at this address") from failure
            raise MethodNotAllowed(request.method, allowed) from failure
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise InvalidRequest("the request", "well formed", failure.detail) from failure
        case _:
            raise failure


def _allowed(path: str) -> str:
    reserved = reserved_routes(path)
    if reserved:
        return ", ".join(sorted(reserved)).replace("GET", "GET, HEAD")
    route = cold_route("GET", path)
    a_bucket = route is not None and route.pattern == "/{bucket}"
    known = ["DELETE", "GET", "PUT"] if a_bucket or route is None else [route.methods]
    return ", ".join(known).replace("GET", "GET, HEAD")
