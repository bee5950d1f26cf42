"""HTTP to a node, for the commands: one request, one answer, and failures as two exceptions.

No retries: a person sees what happened, and an append that may have been stored is not sent twice behind their back.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx

# Longer than a node keeps a long-poll or an SSE stream silent, so that a quiet stream is not taken for a dead node.
_READ_SECONDS_MAX = 90.0
_CONNECT_SECONDS_MAX = 10.0
# A proxy of the environment can not reach the node of this machine.
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class UsageError(Exception):
    """What was typed can not be sent; nothing was."""


class BadAddressError(UsageError):
    def __init__(self, url: str) -> None:
        super().__init__(f"not an address like http://127.0.0.1:4437: {url}")


class BadNameError(UsageError):
    def __init__(self, name: str) -> None:
        super().__init__(f"a name can not have empty parts, `.` or `..`: {name}")


class BadHeaderError(UsageError):
    def __init__(self, header: str) -> None:
        super().__init__(f"{header} can only hold visible ASCII characters and spaces")


class UnreachableError(Exception):
    """No answer: not connected, cut off, or too slow. What was sent may have been done."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no answer from {url}: {reason}")


class RefusedError(Exception):
    """The node answered no, with its error code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the commands look at in a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def next_offset(self) -> str:
        return self.headers.get("stream-next-offset", "")

    @property
    def closed(self) -> bool:
        return self.headers.get("stream-closed", "").lower() == "true"

    @property
    def up_to_date(self) -> bool:
        return self.headers.get("stream-up-to-date", "").lower() == "true"


class Client:
    """A connection to one node."""

    def __init__(self, url: str, api_key: str | None) -> None:
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise BadAddressError(url) from error
        if address.scheme not in {"http", "https"} or not address.host:
            raise BadAddressError(url)
        self._url = url.rstrip("/")
        self._http = httpx.Client(
            headers=_sendable({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            timeout=httpx.Timeout(_READ_SECONDS_MAX, connect=_CONNECT_SECONDS_MAX),
            trust_env=address.host not in _LOCAL_HOSTS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        try:
            response = self._http.request(
                method, self._url + path, headers=_sendable(headers or {}), params=params or None, content=body
            )
        except httpx.RequestError as error:
            raise UnreachableError(self._url, str(error) or type(error).__name__) from error
        return _accepted(response)

    def lines(self, path: str, params: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], str]]:
        """The lines of an event stream while it lasts, each with the response's headers."""
        try:
            with self._http.stream("GET", self._url + path, params=params) as response:
                if not response.is_success:
                    response.read()
                headers = _accepted(response, body=b"").headers
                for line in _lines(response.iter_bytes()):
                    yield headers, line
        except httpx.RequestError as error:
            raise UnreachableError(self._url, str(error) or type(error).__name__) from error


def path_of_stream(name: str) -> str:
    return "/v1/stream/" + quoted(name)


def quoted(name: str) -> str:
    """A name as a path, its slashes kept."""
    # The HTTP client resolves dots like a browser: `rm x/..` would reach for something else.
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise BadNameError(name)
    return quote(name)


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    for header, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise BadHeaderError(header)
    return headers


def _accepted(response: httpx.Response, body: bytes | None = None) -> Answer:
    if response.is_success:
        return Answer(response.status_code, response.headers, response.content if body is None else body)
    code, message = f"http_{response.status_code}", response.reason_phrase
    try:
        error = json.loads(response.content)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        pass  # HEAD answers and proxies in between have no error body; the status says it then
    raise RefusedError(response.status_code, code, message)


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    # Not the client's own line splitter: it also breaks at U+2028 and other characters that are data here.
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()
