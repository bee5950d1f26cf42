"""The lenses of a stream, entry by entry: for whoever looks into entries one at a time."""

import sys
from collections.abc import Callable
from typing import Any

import orjson

from streams_node.errors import LensError
from streams_node.meaning.meaning import Meaning
from streams_node.meaning.pages import documents


class StreamLenses:
    """Of one read; `token` is of a position."""

    def __init__(self, meaning: Meaning, token: Callable[[int], str]) -> None:
        self._meaning = meaning
        self._token = token
        self.current_from = meaning.registry.current_from if meaning.problem is None else sys.maxsize

    def document(self, seq: int, text: bytes) -> Any:
        """An older entry, parsed, as the current version has it."""
        return next(documents(self._meaning, seq, [text], self._token))

    def text(self, seq: int, document: Any) -> bytes:
        """Such a document as it is shown."""
        try:
            return orjson.dumps(document)
        except orjson.JSONEncodeError:
            raise LensError(
                f"document becomes nested too deep; the entry after offset {self._token(seq)} cannot be shown, "
                "format=raw shows it as stored"
            ) from None
