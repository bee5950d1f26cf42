"""Documents as Tantivy takes them: JSON texts, composed a column at a time, so that no value costs a step of Python.

Keeps    every value has its column's type already, whatever the record had: Tantivy fails a whole batch for one that
         has another.
Keeps    which documents have fractions of so many digits that Tantivy may read another one: its parser multiplies and
         rounds twice. Each tenth at random is one bit off; those with at most 15 digits are not.
"""

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

_SURE = 16  # characters: of digits, a point and perhaps a sign
_ESCAPED = b'"\\' + bytes(range(32))  # what stands in JSON in another way than in text


class Texts:
    """The documents of a batch in the making. The first column has a value in each of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[Any] = []  # pieces of all documents: text that is in each, or an array of text
        self._before = "{"
        self.long: set[int] = set()  # documents whose texts may be read as other numbers

    def constant(self, name: str, value: Any) -> None:
        """A value that all documents have."""
        self._parts.append(f"{self._named(name)}{orjson.dumps(value).decode()}")

    def numbers(self, name: str, values: Any) -> None:
        """An array of numbers or truths, with nulls where a document has none."""
        texts = values.cast(pa.string())
        if pa.types.is_floating(values.type):
            long = pc.or_(pc.greater(pc.binary_length(texts), _SURE), pc.match_substring(texts, "e"))
            self.long.update(pc.indices_nonzero(long).to_pylist())
        self._add(name, texts, "")

    def fractions(self, name: str, values: Sequence[Any]) -> None:
        """As `values`, of numbers that may be fractions."""
        texts = [None if value is None else orjson.dumps(value).decode() for value in values]
        self.long.update(at for at, text in enumerate(texts) if text is not None and _is_long(text))
        self._add(name, pa.array(texts, pa.string()), "")

    def strings(self, name: str, values: Any) -> None:
        """An array of text, with nulls where a document has none."""
        if is_plain(values):
            self._add(name, values, '"')
        else:
            self.values(name, values.to_pylist())

    def values(self, name: str, values: Sequence[Any]) -> None:
        """A value, a list of values, or None each: whatever JSON has."""
        texts = [None if value is None else orjson.dumps(value).decode() for value in values]
        self._add(name, pa.array(texts, pa.string()), "")

    def joined(self) -> list[str]:
        """The document of each row."""
        parts = [pa.scalar(part) if isinstance(part, str) else part for part in (*self._parts, "}")]
        found = pc.binary_join_element_wise(*parts, "", null_handling="skip")
        return list(found.to_pylist()) if isinstance(found, pa.Array) else [str(found)] * self._count

    def _add(self, name: str, texts: Any, quote: str) -> None:
        named = f"{self._named(name)}{quote}"
        if texts.null_count:
            texts = pc.binary_join_element_wise(
                pa.scalar(named), texts, pa.scalar(quote), "", null_handling="emit_null"
            )
            self._parts.append(texts)
        else:
            self._parts += [named, texts, quote] if quote else [named, texts]

    def _named(self, name: str) -> str:
        before, self._before = self._before, ","
        return f'{before}"{name}":'


def _is_long(text: str) -> bool:
    return "e" in text or any(len(each) > _SURE for each in text.strip("[]").split(","))


def is_plain(texts: Any) -> bool:
    """Whether a text is spelled in JSON as it is."""
    data = _data(texts)
    return len(data.translate(None, _ESCAPED)) == len(data)


def translated(texts: Any, table: bytes) -> Any:
    """Text that is ASCII, each character changed by a table; None where some is not."""
    data = _data(texts)
    if not data.isascii():
        return None
    valid, places, _ = texts.buffers()
    return pa.StringArray.from_buffers(len(texts), places, pa.py_buffer(data.translate(table)), valid, texts.null_count)


def _data(texts: Any) -> bytes:
    """The characters of all texts of an array that is no slice of another."""
    if texts.offset:
        raise ValueError("slices have characters of others")
    data = texts.buffers()[2]
    return b"" if data is None else bytes(data.to_pybytes())
