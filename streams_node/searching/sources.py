"""Fetches the records of hits, wherever their entries lie, as they are shown."""

import asyncio
import sys
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from streams_node.answers.ranges import Range
from streams_node.errors import Gone, LensError, StreamsError
from streams_node.ingest.state import StreamState
from streams_node.meaning import StreamLenses
from streams_node.observe.logs import get_logger
from streams_node.placement.locate import Located
from streams_node.read.cold import ColdReader, Run
from streams_node.read.filtered import parsed
from streams_node.read.pages import deleted
from streams_node.read.scan import Bounds, read_matching
from streams_node.read.sealed import Decoded, Groups, first_group
from streams_node.searching.scan import Parts
from streams_node.searching.sieve import Picker, Spans

if TYPE_CHECKING:
    from streams_node.segments.reader import SealedFile  # loads pyarrow

log = get_logger(__name__)
_NEAR = 64  # entries between two that are read in one go
_STEP_BYTES = 16 << 20
_NOTHING_SHOWN = 1 << 20
_AT_ONCE = 4  # groups
_KNOWN_BYTES_MAX, _TEXT_BYTES_MAX, _KEY_BYTES = 16 << 20, 64 << 10, 200
_DECODED_BYTES_MAX = 8 << 20  # the next page is often of the same row groups
_STEP_S = 0.05  # that a thread is at it before others have their turn


class Texts:
    """The entries that were shown lately, as they are stored: the same ones are asked for again and again."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self.groups = Groups(_DECODED_BYTES_MAX)
        self.bytes = 0

    async def of(self, parts: Parts, state: StreamState, seqs: Iterable[int], until: float) -> dict[int, bytes]:
        """Entries as they are stored; without those that are trimmed by now, or cannot be had in time."""
        wanted, found = set(seqs), dict[int, bytes]()
        for seq in wanted:
            text = self._known.get((state.id, seq))
            if text is not None:
                found[seq] = text
                self._known.move_to_end((state.id, seq))
        if len(found) == len(wanted):
            return found
        fresh = await texts_of(parts, state, wanted - found.keys(), until, self.groups)
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


class _Room:
    """How many bytes of entries there is room for."""

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def step(self) -> int:
        """What one of those that read at once may take."""
        return max(1, self.left // _AT_ONCE)

    def took(self, texts: Iterable[bytes]) -> None:
        self.left -= sum(map(len, texts))


async def texts_of(
    parts: Parts, state: StreamState, seqs: Iterable[int], until: float, groups: Groups | None = None,
    *, bytes_max: int = sys.maxsize,
) -> dict[int, bytes]:  # fmt: skip
    """Entries as they are stored; without those that are trimmed by now, or cannot be had in time.

    Beyond `bytes_max` none is read any more: that of each who reads may pass it by one entry.
    What is known to be sealed comes out of its objects, each looked into once; all else as any read finds it.
    """
    some, decoded = asyncio.Semaphore(_AT_ONCE), groups or Groups(_DECODED_BYTES_MAX)
    found, room = dict[int, bytes](), _Room(bytes_max)

    async def sealed(cold: ColdReader, place: Located, held: list[int]) -> None:
        async with some:
            found.update(await _of_object(cold, state, place, held, until, decoded, room))

    async def one(group: Sequence[int]) -> None:
        async with some:
            found.update(await _readable(parts, state, group, until, room))

    wanted = sorted(set(seqs))
    cold = parts[1]
    if cold is not None and state.lineage is None and wanted and wanted[0] < state.cold_below:
        places = await cold.places_of(state.id, wanted[: bisect_left(wanted, state.cold_below)])
        await asyncio.gather(*(sealed(cold, place, held) for place, held in places))
    await asyncio.gather(*map(one, _groups([seq for seq in wanted if seq not in found])))
    return found


async def _of_object(
    cold: ColdReader, state: StreamState, place: Located, seqs: list[int], until: float, groups: Groups, room: _Room
) -> dict[int, bytes]:
    """What of some entries is in the object that held them a moment ago, or in the one that has replaced it."""
    found: dict[int, bytes] = {}
    while seqs and room.left > 0 and time.monotonic() < until:
        try:
            picked = await cold.look(Run(state.id, seqs[0], [place]), partial(_picked, groups, seqs, room.step))
        except StreamsError:
            break  # who reads on for what is missing will say why
        if not picked:
            break
        room.took(picked.values())
        found |= picked
        seqs = [seq for seq in seqs if seq not in picked]
    return found


def _picked(
    groups: Groups, seqs: Sequence[int], bytes_max: int, file: "SealedFile", row: int, start: int, end: int
) -> dict[int, bytes]:
    """In a thread: at least the first of some entries, of which `start` is in row `row`.

    Then others while there are time and room.
    """
    found, size = dict[int, bytes](), 0
    group: Decoded | None = None
    ends = time.monotonic() + _STEP_S
    for seq in seqs[: bisect_left(seqs, end)]:
        at = row + seq - start
        if size >= bytes_max:
            break
        if group is None or at >= group.end:
            if found and time.monotonic() > ends:
                break
            group = groups.get(file, first_group(file.footer, at), commas=False)
        found[seq] = group.entry(at)
        size += len(found[seq])
    return found


async def _readable(
    parts: Parts, state: StreamState, group: Sequence[int], until: float, room: _Room
) -> dict[int, bytes]:
    """What of a group can be had."""
    try:
        return await _group(parts, state, group, until, room)
    except Gone:
        kept = [seq for seq in group if seq >= state.earliest_seq]
        return await _readable(parts, state, kept, until, room) if 0 < len(kept) < len(group) else {}
    except StreamsError as problem:
        if state.gone:
            raise deleted(state) from None
        log.info("records of hits could not be read", stream=state.id, seq=group[0], error=problem.message)
        return {}


async def _group(parts: Parts, state: StreamState, group: Sequence[int], until: float, room: _Room) -> dict[int, bytes]:
    database, cold = parts
    at, end = group[0], group[-1] + 1
    picker = Picker(Spans([Range(at, end)]), group)
    while at < end and len(picker.texts) < len(group):
        seconds = until - time.monotonic()
        if seconds <= 0 or room.left <= 0:
            break
        bounds = Bounds(_NOTHING_SHOWN, min(_STEP_BYTES, room.step), seconds)
        try:
            scanned = await read_matching(database, cold, state, at, picker, bounds)
        except StreamsError:
            if not picker.texts or state.gone:
                raise
            break
        room.took(text for seq, text in picker.texts.items() if at <= seq < scanned.page.end)
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
