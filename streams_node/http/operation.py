"""How a route is described in words: see operations.py."""

from collections.abc import Mapping
from typing import NamedTuple

Schema = Mapping[str, object]


class Answer(NamedTuple):
    """One way in which a request succeeds. Its body may be `entries`, `text`, `html`, `json`, or a `view`: what the
    route's handler returns.
    """

    status: int
    text: str
    headers: str = ""
    body: str = ""


class Operation(NamedTuple):
    """A route, as far as its class, path and summary do not say it already."""

    text: str
    inputs: str
    answers: tuple[Answer, ...]
    codes: str
    takes_entries: bool = False
    takes: Schema | None = None  # a JSON body of this shape
