"""The three requests to a node: claim, renew, commit.

Keeps    each request ends by itself. What may come back is `NodeAway`, and worth another try; `LeaseLost` ends a claim;
         `Refused` ends the driver, as no waiting helps.
"""

from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec

from indexers.messages import Claim, ClaimRequest, CommitRequest, RenewRequest

_PREFIX = "/v1/server/_index/"
_ANSWER_S = 30.0  # on top of what a claim may wait; a commit asks the store for every object
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_BUSY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_REFUSED = "index_refused"  # nothing of a commit was stored, and the lease goes on
_SHOWN_CHARS = 300


class NodeAway(Exception):
    """No answer, or none of a node that works."""


class LeaseLost(Exception):
    """The claim is another driver's, or nobody's."""


class Refused(Exception):
    """The node does not take this driver, or this request."""


class Address(NamedTuple):
    url: str
    token: str | None = None


class NodeClient:
    """Safe for two threads: one works, one renews."""

    def __init__(self, address: Address) -> None:
        headers = {"content-type": "application/json"}
        if address.token:
            headers["authorization"] = f"Bearer {address.token}"
        self._http = httpx.Client(
            base_url=address.url.rstrip("/"),
            headers=headers,
            timeout=_ANSWER_S,
            trust_env=urlsplit(address.url).hostname not in _LOOPBACK,  # no proxy stands before one's own machine
        )

    def close(self) -> None:
        self._http.close()

    def claim(self, request: ClaimRequest) -> Claim | None:
        """Work; None if there is none."""
        answer = self._ask("claim", request, _ANSWER_S + request.wait_ms / 1000)
        if answer.status_code == HTTPStatus.NO_CONTENT:
            return None
        try:
            return msgspec.json.decode(answer.content, type=Claim)
        except msgspec.DecodeError as problem:
            raise Refused(
                f"the node's claim cannot be read: {problem}; are node and driver of one version?"
            ) from problem

    def renew(self, request: RenewRequest) -> None:
        self._ask("renew", request, _ANSWER_S)

    def commit(self, request: CommitRequest) -> None:
        self._ask("commit", request, _ANSWER_S)

    def _ask(self, what: str, request: Any, timeout_s: float) -> httpx.Response:
        try:
            answer = self._http.post(_PREFIX + what, content=msgspec.json.encode(request), timeout=timeout_s)
        except httpx.HTTPError as problem:
            raise NodeAway(f"{what}: {str(problem) or type(problem).__name__}") from problem
        if answer.is_success:
            return answer
        said = f"{what}: {answer.status_code} {answer.text[:_SHOWN_CHARS]}"
        if answer.status_code == HTTPStatus.CONFLICT and _code(answer) != _REFUSED:
            raise LeaseLost(said)
        if answer.is_server_error or answer.status_code in _BUSY:
            raise NodeAway(said)
        raise Refused(said)


def _code(answer: httpx.Response) -> object:
    """Of the error in an answer of a node."""
    try:
        return answer.json()["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
