"""Payloads -> documents of the current version."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import orjson
import pyarrow as pa

from indexers.messages import Meaning
from indexers.records.arrays import arrays
from streams_node.schema.errors import LensFailed
from streams_node.schema.lens import Lens, lens_of
from streams_node.schema.promotion import Promoter, room_for
from streams_node.schema.registry import Registry, decode
from streams_node.schema.search_config import Kind, SearchConfig

_EXACT_MIN, _EXACT_MAX = -(2**63), 2**64 - 1  # beyond them orjson reads doubles
_DIGITS_MAX = 400  # no finite number has more
# Of a value that is what most values of its kind are; a date is text.
_ARROW = {
    Kind.KEYWORD: pa.string(), Kind.TEXT: pa.string(), Kind.DATE: pa.string(), Kind.FLOAT: pa.float64(),
    Kind.INTEGER: pa.int64(), Kind.BOOL: pa.bool_(),
}  # fmt: skip
_NOTHING: dict[str, Any] = {}  # stands for a record without fields; nobody writes into a document


class Documents:
    """Records, in order. `plain`: as orjson reads them, so numbers are finite and of 64 bits; asked behind `records`.
    `skipped`: which have no fields, because they are no objects. `arrays`: what has been read already, by pointer.
    """

    def __init__(self, records: list[Any], skipped: list[int], plain: bool) -> None:  # noqa: FBT001 - always the third
        self._records: list[Any] | None = records
        self._payloads: Any = records
        self.skipped = skipped
        self.plain = plain
        self.arrays: Mapping[str, Any] = {}

    @classmethod
    def read_by_arrow(cls, payloads: Any, arrays: Mapping[str, Any]) -> Self:
        """Objects that are parsed only if somebody wants more of them than these columns."""
        documents = cls([], [], plain=True)
        documents._records, documents._payloads, documents.arrays = None, payloads, arrays
        return documents

    def __len__(self) -> int:
        return len(self._payloads)

    @property
    def records(self) -> list[Any]:
        if self._records is None:
            self._records, self.plain = _loaded(self._payloads.to_pylist())  # a member that no column is of may be odd
        return self._records


class Subject:
    """What entries of some streams mean."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.configs = meaning.configs
        self.registry: Registry = decode(orjson.loads(bytes(meaning.registry)))
        lenses: dict[int, Lens] = {at: lens_of(document) for at, document in self.registry.lenses.items()}
        self._promoter = Promoter(lenses, self.registry.current_version)
        fields = () if self.search is None else self.search.fields.values()
        pointers = ((each.pointer(self.version), _ARROW[each.kind]) for each in fields)
        self._types = {pointer: type_ for pointer, type_ in pointers if pointer is not None}

    @property
    def version(self) -> int:
        return self.registry.current_version

    @property
    def search(self) -> SearchConfig | None:
        return self.registry.search

    def documents(self, seqs: Sequence[int], entries: Any) -> Documents:
        """Entries by their sequences, as an array of their payloads; they may be of several streams."""
        current_from = self.registry.current_from
        promoted = bool(seqs) and min(seqs) < current_from
        if not promoted and (read := arrays(entries, self._types)) is not None:
            return Documents.read_by_arrow(entries, read)
        payloads = entries.to_pylist()
        records, plain = _loaded(payloads)
        if promoted:
            for at, seq in enumerate(seqs):
                if seq < current_from:
                    plain = False
                    records[at] = self._promoted(records[at], seq, len(payloads[at]))
        skipped = [at for at, record in enumerate(records) if record.__class__ is not dict]
        for at in skipped:
            records[at] = _NOTHING
        return Documents(records, skipped, plain)

    def _promoted(self, record: Any, seq: int, size: int) -> Any:
        """None where a lens cannot be applied: such an entry cannot be shown either."""
        try:
            return self._promoter.promote(record, self.registry.version_of(seq), room_for(size))
        except LensFailed:
            return None


def parsed(payload: bytes) -> Any:
    """The value of an entry; None where it is not JSON.

    What stores entries accepts lone surrogates and numbers that no double can hold; a strict reader does not.
    """
    try:
        return orjson.loads(payload)
    except ValueError:
        return _tolerant(payload)


def _tolerant(payload: bytes) -> Any:
    try:
        return json.loads(payload.decode("utf-8"), parse_int=_integer, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _integer(digits: str) -> int | float:
    value = int(digits) if len(digits) <= _DIGITS_MAX else _EXACT_MAX + 1
    return value if _EXACT_MIN <= value <= _EXACT_MAX else float(digits)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _loaded(payloads: Sequence[bytes]) -> tuple[list[Any], bool]:
    try:
        return list(map(orjson.loads, payloads)), True
    except ValueError:
        return list(map(parsed, payloads)), False
