"""Fetches the records of hits, wherever their entries lie, as they are shown."""

import time
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


async def texts_of(parts: Parts, state: StreamState, seqs: Iterable[int], until: float) -> dict[int, bytes]:
    """Entries as they are stored; without those that are trimmed by now, or cannot be had in time."""
    found: dict[int, bytes] = {}
    for group in _groups(sorted(set(seqs))):
        try:
            found |= await _group(parts, state, group, until)
        except Gone:
            kept = [seq for seq in group if seq >= state.earliest_seq]
            if len(kept) < len(group):
                found |= await texts_of(parts, state, kept, until)
        except StreamsError as problem:
            if state.gone:
                raise deleted(state) from None
            log.info("records of hits could not be read", stream=state.id, seq=group[0], error=problem.message)
    return found


async def _group(parts: Parts, state: StreamState, group: Sequence[int], until: float) -> dict[int, bytes]:
    database, cold = parts
    at, end = group[0], group[-1] + 1
    picker = Picker(Spans([Range(at, end)]), frozenset(group))
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
