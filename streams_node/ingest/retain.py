"""Decides from which entry on a stream is kept: earlier ones are gone for every reader once that is stored."""

import sql
from streams_node.ingest.cache import Absent
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.state import StreamState

_STREAMS = sql.queries("streams")


async def retain(ledger: Ledger, state: StreamState, seq: int) -> None:
    """Let go of what is below `seq`. It never goes back, and never beyond the end."""
    current = await ledger.state(state.name)  # whoever asks may have waited: it may have left memory, or ended
    if isinstance(current, Absent) or current.id != state.id:
        return
    ledger.trust()
    state, seq = current, min(seq, current.tail.seq)
    if state.gone or seq <= state.earliest_seq:
        return
    committer = ledger.committer
    committer.open.writes.statements.append((_STREAMS.retain_from, (seq, state.bucket_id, state.name.stream)))
    committer.open.retained.append((state, seq))
    state.batch = batch = committer.added(0, 1)  # it keeps the state in memory until the row says the same
    await batch.settling
