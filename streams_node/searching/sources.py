"""Fetches the records of hits, wherever their entries lie, as they are shown."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from streams_node.answers.ranges import Range
from streams_node.errors import Gone, LensError, StreamsError
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.observe.logs import get_logger
from streams_node.read.filtered import parsed
from streams_node.read.pages import deleted
from streams_node.read.scan import Bounds, read_matching
from streams_node.searching.scan import Parts
from streams_node.searching.sieve import Picker, Spans

log = get_logger(__name__)
_NEAR = 64  # entries between two that are read in one go
_STEP_BYTES = 16 << 20
_NOTHING_SHOWN = 1 << 20
_AT_ONCE = 4  # groups
_KNOWN_BYTES_MAX, _TEXT_BYTES_MAX, _KEY_BYTES = 16 << 20, 64 << 10, 200


class Texts:
    """The entries that were shown lately, as they are stored: the same ones are asked for again and again."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self.bytes = 0

    async def of(self, parts: Parts, state: StreamState, seqs: Iterable[int], until: float) -> dict[int, bytes]:
        """As `texts_of`."""
        wanted, found = set(seqs), dict[int, bytes]()
        for seq in wanted:
            text = self._known.get((state.id, seq))
            if text is not None:
                found[seq] = text
                self._known.move_to_end((state.id, seq))
        fresh = await texts_of(parts, state, wanted - found.keys(), until)
        for seq, text in fresh.items():
            if len(text) <= _TEXT_BYTES_MAX:
                self._put((state.id, seq), text)
        return found | fresh

    def _put(self, key: tuple[int, int], text: bytes) -> None:
        old = self._known.pop(key, None)
        self._known[key] = text
        self.bytes += len(text) + _KEY_BYTES - (0 if old is None else len(old) + _KEY_BYTES)
        while self.bytes > _KNOWN_BYTES_MAX:
            _, gone = self._known.popitem(last=False)
            self.bytes -= len(gone) + _KEY_BYTES


async def texts_of(parts: Parts, state: StreamState, seqs: Iterable[int], until: float) -> dict[int, bytes]:
    """Entries as they are stored; without those that are trimmed by now, or cannot be had in time."""
    some = asyncio.Semaphore(_AT_ONCE)

    async def one(group: Sequence[int]) -> dict[int, bytes]:
        async with some:
            return await _readable(parts, state, group, until)

    found: dict[int, bytes] = {}
    for texts in await asyncio.gather(*map(one, _groups(sorted(set(seqs))))):
        found |= texts
    return found


async def _readable(parts: Parts, state: StreamState, group: Sequence[int], until: float) -> dict[int, bytes]:
    """What of a group can be had."""
    try:
        return await _group(parts, state, group, until)
    except Gone:
        kept = [seq for seq in group if seq >= state.earliest_seq]
        return await _readable(parts, state, kept, until) if 0 < len(kept) < len(group) else {}
    except StreamsError as problem:
        if state.gone:
            raise deleted(state) from None
        log.info("records of hits could not be read", stream=state.id, seq=group[0], error=problem.message)
        return {}


async def _group(parts: Parts, state: StreamState, group: Sequence[int], until: float) -> dict[int, bytes]:
    database, cold = parts
    at, end = group[0], group[-1] + 1
    picker = Picker(Spans([Range(at, end)]), group)
    while at < end and len(picker.texts) < len(group):
        seconds = until - time.monotonic()
        if seconds <= 0:
            break
        bounds = Bounds(_NOTHING_SHOWN, _STEP_BYTES, seconds)
        try:
            scanned = await read_matching(database, cold, state, at, picker, bounds)
        except StreamsError:
            if not picker.texts or state.gone:
                raise
            break
        at = scanned.page.end
    return picker.texts


def _groups(seqs: Sequence[int]) -> list[list[int]]:
    """Neighbours together."""
    groups: list[list[int]] = []
    for seq in seqs:
        if groups and seq - groups[-1][-1] <= _NEAR:
            groups[-1].append(seq)
        else:
            groups.append([seq])
    return groups


def record_of(lenses: StreamLenses, seq: int, text: bytes) -> tuple[Any, bytes]:
    """An entry as the current version has it, and its text; where that fails, no record and the stored text."""
    if seq >= lenses.current_from:
        return parsed(text), text
    try:
        document = lenses.document(seq, text)
        return document, lenses.text(seq, document)
    except LensError:
        return None, text
