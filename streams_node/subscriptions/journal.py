"""Stores what is decided about subscriptions: in the group commit of everything else, past its admission."""

from collections.abc import Sequence
from typing import Any

from streams_node.errors import StreamsError
from streams_node.ingest.append import AppendRequest, checked_pieces, store
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.state import StreamState
from streams_node.observe.logs import get_logger
from streams_node.testing.crashpoints import crash_point

log = get_logger(__name__)
Statement = tuple[str, tuple[Any, ...]]


async def keep(ledger: Ledger, statements: Sequence[Statement]) -> None:
    """Return once the statements are on disk, all of them or none."""
    if statements:
        await _join(ledger, statements).settling


async def keep_with_event(ledger: Ledger, statements: Sequence[Statement], state: StreamState, event: bytes) -> None:
    """The same together with an entry of a stream, all or nothing. A stream that cannot take it is left alone."""
    await _join(ledger, statements, event_of=state, event=event).settling


def _join(
    ledger: Ledger, statements: Sequence[Statement], *, event_of: StreamState | None = None, event: bytes = b""
) -> Batch:
    """Give the open batch what is to be stored. Nothing waits in here, so nothing else comes between."""
    ledger.trust()
    for refusal in ledger.refusals.values():
        raise refusal
    crash_point("subscription.decided")
    committer = ledger.committer
    committer.open.writes.statements += statements
    if event_of is not None:
        appended = _append(ledger, event_of, event)
        if appended is not None:
            return appended
    return committer.added(0, len(statements))


def _append(ledger: Ledger, state: StreamState, event: bytes) -> Batch | None:
    """Past admission, as for all that the node itself has to say: it is small, and as rare as wakes are."""
    if state.closed or state.gone:
        return None
    request = AppendRequest(event, state.content_type)
    try:
        pieces = checked_pieces(ledger, state, request).pieces
    except StreamsError as problem:
        log.warning("a wake could not be announced", stream=state.name.stream, error=problem.message)
        return None
    return store(ledger, state, pieces, request).batch
