"""A mirror made from the bucket: the newest snapshot that is whole, and every generation after it.

Keeps    a damaged snapshot is passed over for the one before it and more generations, which say the same. What no way
         around a damage is found for is named; it is left out only when somebody said that it may be.
Dies     anywhere: the files have names of their own, and the next build removes them.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streams_node.errors import CatalogueError
from streams_node.manifest.chain import PUT_BACK, Chain
from streams_node.manifest.compose import Damage
from streams_node.manifest.feed import MIRROR, clear
from streams_node.manifest.mirror import put_in_place
from streams_node.manifest.records import Index, NewerFormat
from streams_node.manifest.snapshots import fetch_index, fetch_part, snapshots
from streams_node.manifest.tables import apply, at, load_snapshot, open_mirror

_SHOWN = 20  # damages that one message names


class Rebuilt(NamedTuple):
    """A mirror in its place. `lost` is what had to be left out, `passed_over` what something else stood in for."""

    path: Path
    snapshot: int
    lost: Damage
    passed_over: Damage


class _Attempt(NamedTuple):
    path: Path
    snapshot: int
    damage: Damage


def rebuild(chain: Chain, folder: Path, through: int, *, accept_loss: bool = False) -> Rebuilt:
    """Make `mirror.db` in a folder stand for a generation."""
    clear(folder)
    attempts: list[_Attempt] = []
    passed_over: Damage = []
    for snapshot in _candidates(chain, through):
        path = folder / f"{MIRROR}.{len(attempts)}"
        path.unlink(missing_ok=True)
        try:
            damage = _attempt(chain, path, snapshot, through)
        except NewerFormat:
            raise
        except CatalogueError as problem:
            passed_over.append(problem.message)
            continue
        attempts.append(_Attempt(path, snapshot, damage))
        if not damage:
            break
        passed_over += [each for each in damage if each not in passed_over]
    return _best(chain, folder, through, attempts, passed_over, accept_loss=accept_loss)


def _best(
    chain: Chain, folder: Path, through: int, attempts: list[_Attempt], passed_over: Damage, *, accept_loss: bool
) -> Rebuilt:
    best = min(attempts, key=lambda attempt: len(attempt.damage), default=None)
    if best is None or (best.damage and not accept_loss):
        found = passed_over if best is None else best.damage
        shown = "; ".join(found[:_SHOWN]) + (f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        for attempt in attempts:
            attempt.path.unlink(missing_ok=True)
        way = "put it back from a copy of the bucket"
        if best is not None:
            way += ", or accept the loss of what it says (--bootstrap-accept-loss): everything else is restored"
        raise CatalogueError(
            f"the catalogue in {chain.store.place} cannot be read up to generation {through}: {shown}. To go on, {way}",
            damage=found,
        )
    for attempt in attempts:
        if attempt is not best:
            attempt.path.unlink(missing_ok=True)
    put_in_place(best.path, folder / MIRROR)
    return Rebuilt(
        folder / MIRROR, best.snapshot, best.damage, [each for each in passed_over if each not in best.damage]
    )


def extend(chain: Chain, path: Path, through: int) -> None:
    """Move a whole mirror on to a newer generation."""
    with contextlib.closing(open_mirror(path)) as db:
        for generation in range(at(db).generation + 1, through + 1):
            apply(db, chain.fetch(generation), number=generation)


def _candidates(chain: Chain, through: int) -> list[int]:
    """Snapshots, newest first; 0 begins with the first generation, if that is still there."""
    found = [each.generation for each in snapshots(chain.store) if each.complete and each.generation <= through]
    if not found or chain.exists(1):
        found.append(0)
    return found


def _attempt(chain: Chain, path: Path, snapshot: int, through: int) -> Damage:
    """Build from one snapshot; returns what is damaged. CatalogueError: this snapshot is no use at all."""
    damage: Damage = []
    with contextlib.closing(open_mirror(path, building=True)) as db:
        if snapshot:
            index = fetch_index(chain.store, snapshot)
            load_snapshot(db, index, _parts(chain, index), damage)
        for generation in range(snapshot + 1, through + 1):
            _apply(chain, db, generation, damage)
    return damage


def _parts(chain: Chain, index: Index) -> Iterator[bytes | CatalogueError]:
    """One at a time: a part is held in memory no longer than it takes to load it."""
    for part in index.parts:
        try:
            yield fetch_part(chain.store, index.generation, part)
        except CatalogueError as problem:
            yield problem


def _apply(chain: Chain, db: sqlite3.Connection, generation: int, damage: Damage) -> None:
    try:
        # After one that was left out, the next one cannot follow; that one has been named already.
        chained = at(db).generation == generation - 1
        apply(db, chain.fetch(generation), number=generation, damage=damage, chained=chained)
    except NewerFormat:
        raise
    except CatalogueError as problem:
        damage.append(problem.message.removesuffix(PUT_BACK))
