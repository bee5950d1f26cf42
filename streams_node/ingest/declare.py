"""Decides what a stream is declared to be: its registry of schemas, its profile, or both at once.

The decision itself is a pure function of the caller's, run beside the loop with everything that is compiled; then its
turn comes like that of any write. What came in between is looked at there: a declaration that rests on another one, or
on an empty stream that is empty no more, is decided again; otherwise only the place moves where the new version begins.
"""

from collections.abc import Callable
from typing import NamedTuple

import sql
from streams_node.errors import InvalidDeclaration, LensMismatch, Overloaded
from streams_node.indexing.plans import configs_of, plan_statement
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.ingest.state import StreamState
from streams_node.meaning import Facts, Meaning, Standing, Stored
from streams_node.schema.errors import LensVersionMismatch, SchemaRefused
from streams_node.wal.lookup import Name

_SCHEMAS = sql.queries("schemas")
_TRIES = 16  # at the same stream, against others who declare
Decide = Callable[[Standing, Facts], Standing]


class Declared(NamedTuple):
    """What the stream is declared to be once the batch is on disk; no batch when nothing had to be stored."""

    standing: Standing
    batch: Batch | None


class _Draft(NamedTuple):
    before: Standing
    meaning: Meaning
    stored: Stored
    configs: str  # of the indexes
    changed: bool


def standing_of(state: StreamState, meaning: Meaning | None) -> Standing:
    """What a stream is declared to be, also when nothing ever was."""
    return Standing.new(*state.name) if meaning is None else meaning.standing


async def drafted(ledger: Ledger, state: StreamState, decide: Decide) -> Meaning:
    """What a declaration would come to, or why it is refused; nothing is changed."""
    return (await _drafted(ledger, state, decide)).meaning


async def declare(ledger: Ledger, name: Name, decide: Decide) -> Declared:
    """Change what a stream is declared to be. `decide` runs in a thread, and perhaps more than once."""
    for _ in range(_TRIES):
        ledger.trust()
        state = await ledger.living(name)
        number, empty = state.meaning_number, state.next_seq == 0
        draft = await _drafted(ledger, state, decide)
        ledger.trust()
        later = await ledger.living(name)
        if later.id == state.id and later.meaning_number == number and (later.next_seq == 0) == empty:
            return _decided(ledger, later, draft)
    raise Overloaded("the stream is being declared by too many at once; try again")


async def _drafted(ledger: Ledger, state: StreamState, decide: Decide) -> _Draft:
    before = standing_of(state, state.meaning)
    facts = Facts(*state.name, state.next_seq, state.content_type, state.is_json)
    commons = ledger.workshop.commons

    def draft() -> _Draft:
        after = decide(before, facts)
        configs = configs_of(after.registry, after.profile, is_json=facts.is_json)
        return _Draft(before, Meaning.of(after, commons), after.encode(), configs, changed=after != before)

    if state.meaning is not None and state.meaning.problem is not None:
        raise state.meaning.problem
    try:
        return await ledger.workshop.make(draft)
    except LensVersionMismatch as refusal:
        raise LensMismatch(str(refusal)) from None
    except SchemaRefused as refusal:
        raise InvalidDeclaration(str(refusal)) from None


def _decided(ledger: Ledger, state: StreamState, draft: _Draft) -> Declared:
    """On the loop, without waiting: every later entry is of the new version, and no earlier one."""
    meaning, stored = draft.meaning, draft.stored
    if not draft.changed:
        return Declared(draft.before, state.batch if not state.settled else None)  # its members in their order
    registry = meaning.registry
    if registry.boundaries != draft.before.registry.boundaries and registry.current_from != 0:
        meaning = meaning.beginning_at(state.next_seq)
        stored = meaning.standing.encode()
    ledger.admit(len(stored.registry))
    state.meaning, state.schema_version = meaning, meaning.version
    state.meaning_number += 1
    state.profile = stored.profile
    committer = ledger.committer
    committer.open.writes.statements += [
        (_SCHEMAS.put_schema, (state.id, stored.registry, stored.config)),
        (_SCHEMAS.count_meaning, (state.meaning_number, stored.profile, state.bucket_id, state.name.stream)),
        plan_statement(state.id, draft.configs, ledger.now_us()),
    ]
    committer.open.meant.append((state, meaning, state.meaning_number))
    state.batch = batch = committer.added(len(stored.registry), 2)
    ledger.states.weigh(state)
    return Declared(meaning.standing, batch)
