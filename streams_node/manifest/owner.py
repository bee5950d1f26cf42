"""Whose the bucket is: one record with a fencing number, moved by if-match only. No lease, no clock.

    {"format": 1, "node": "<32 hex>", "fence": 3, "since_us": …, "host": "…"}

Keeps    fences only grow; a node that finds another one's record stops publishing for good. The put-if-absent of the
         next generation is what decides a race; this record says early and clearly who won.
Dies     between the put and its answer: the record is ours or not; doing the same again finds out.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from streams_node.errors import CatalogueError, Fenced, ObjectMissing, PreconditionFailed, StoreCorrupt
from streams_node.manifest.chain import Chain
from streams_node.manifest.records import FORMAT, Node, Number
from streams_node.objects import ETag, RetryingStore, WriteId
from streams_node.objects.keys import OWNER
from streams_node.protocol.times import rfc3339
from streams_node.testing.crashpoints import crash_point

_WAY_OUT = (
    "start with --bootstrap-from-store on an empty data folder to take it over, or choose another place "
    "(s3_prefix, object_store_folder)"
)


class Owner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `owner`."""

    format: Number
    node: Node
    fence: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    since_us: Number
    host: str


class Seen(msgspec.Struct, frozen=True):
    """The record, and the state of the object it was read from."""

    owner: Owner
    etag: ETag


def look(store: RetryingStore) -> Seen | None:
    """The record; None when nobody ever owned the bucket."""
    try:
        data, stored = store.get(OWNER)
    except ObjectMissing:
        return None
    except StoreCorrupt as problem:
        raise _unreadable(store, problem.message) from problem
    try:
        version = msgspec.json.decode(data, type=dict[str, object]).get("format")
        if isinstance(version, int) and version > FORMAT:
            raise CatalogueError(
                f"the owner record of {store.place} was written by a newer version (format {version}; this version "
                f"knows {FORMAT}); run that"
            )
        owner = msgspec.json.decode(data, type=Owner)
    except msgspec.DecodeError as problem:
        raise _unreadable(store, problem) from problem
    return Seen(owner, stored.etag)


def claim(store: RetryingStore, node: str, host: str, now_us: int) -> int:
    """Own a bucket that nobody owns; returns the fence. Who owns it already gets the fence again."""
    seen = look(store)
    if seen is None:
        _require_no_catalogue(store)
        owner = Owner(format=FORMAT, node=node, fence=1, since_us=now_us, host=host)
        try:
            _put(store, owner, None)
        except PreconditionFailed:
            seen = look(store)  # somebody was quicker; or it was this node, a moment ago with another clock
        else:
            crash_point("owner.claimed")
            return owner.fence
    if seen is not None and seen.owner.node == node:
        return seen.owner.fence
    raise _belongs_to(store, seen.owner if seen else None)


def check(store: RetryingStore, node: str, fence: int) -> None:
    """Fenced unless the record is this node's, with this fence."""
    seen = look(store)
    if seen is None:
        raise CatalogueError(
            f"{store.place} has no owner record any more; somebody removed `{OWNER}`. If no other node uses this "
            "place, put it back from a copy of the bucket; until then nothing is published"
        )
    owner = seen.owner
    if (owner.node, owner.fence) != (node, fence):
        raise Fenced(
            f"node `{owner.node}` on host `{owner.host}` took {store.place} over at {rfc3339(owner.since_us)} (fence "
            f"{owner.fence}; this node `{node}` has {fence}); this node must not publish any more",
            node=owner.node,
            fence=owner.fence,
        )


def take_over(store: RetryingStore, node: str, host: str, now_us: int) -> int:
    """Own the bucket from now on, whoever owned it; returns the new fence. Its former owner has to stop."""
    seen = look(store)
    if seen is not None:
        before = seen.owner.fence
    else:
        chain = Chain(store)
        newest = chain.newest()
        before = chain.header(newest).fence if newest else 0
    owner = Owner(format=FORMAT, node=node, fence=before + 1, since_us=now_us, host=host)
    try:
        _put(store, owner, seen.etag if seen else None)
    except PreconditionFailed as problem:
        there = look(store)
        raise Fenced(
            f"another node took {store.place} over at the same moment"
            + (f": `{there.owner.node}` on host `{there.owner.host}`" if there else "")
            + "; start again if it has to be this one",
        ) from problem
    crash_point("owner.claimed")
    return owner.fence


def _put(store: RetryingStore, owner: Owner, etag: ETag | None) -> None:
    data = msgspec.json.encode(owner) + b"\n"
    store.put(OWNER, data, write_id=WriteId(f"owner-{owner.node}-{owner.fence}"), if_match=etag)


def _require_no_catalogue(store: RetryingStore) -> None:
    """Generations without an owner record: somebody's data, and no moment to begin from nothing."""
    if Chain(store).newest():
        raise _belongs_to(store, None)


def _belongs_to(store: RetryingStore, owner: Owner | None) -> CatalogueError:
    whose = (
        f"node `{owner.node}` on host `{owner.host}`, since {rfc3339(owner.since_us)}"
        if owner
        else "a node whose owner record is gone"
    )
    return CatalogueError(f"{store.place} holds the catalogue of {whose}; {_WAY_OUT}")


def _unreadable(store: RetryingStore, problem: object) -> CatalogueError:
    return CatalogueError(
        f"the owner record `{OWNER}` of {store.place} cannot be read ({problem}); put it back from a copy of the "
        "bucket; or, if no node uses this place, remove it and take the place over with --bootstrap-from-store"
    )
