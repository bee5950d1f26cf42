"""The catalogue: what the bucket is said to hold, in numbered generations that are put if absent.

Owns     `catalogue/`, `owner` and `latest` in the bucket; `mirror.db` and its files in the data folder's `catalogue/`;
         the form of every line (records.py, compose.py).
Pulls    `unpublished` and the node's own numbers from the database.
Hands on a committed generation, its transaction in the database, snapshots, and a data folder made from the bucket.
Keeps    the put of generation N + 1 is the commit. It names N's checksum; nobody skips, replaces or branches.
         A node publishes as long as the owner record is its own; one that was taken over stops, and its log stays.
Dies     before the put: nothing happened. After it: `reconcile` finds it. Inside the transaction: it never was.
         A snapshot counts when its index is there; the mirror can be built anew at any time.

Every function blocks and belongs into an executor, the two commands of mirror.py into the worker.

A start, with a database `db` that says who it is (`local(db)`), or an empty one:

    chain = Chain(store)
    fence = claim(store, node, host, now_us)           # first start; then own(db, node, fence) on the writer
    check(store, node, fence)                          # later starts, and before each publish
    for found in unapplied(chain, known.generation, known.generation_sum, node, fence):   # in an executor
        apply_found(db, found, now_us)                                                    # on the writer
    reconcile(db, chain, node, fence, now_us)          # the two in one, where the writer may wait for the store

A publish, of seals that are built and uploaded already:

    told = changes(db)                                 # a reader; after the seals were built, see there
    header = Header(format=FORMAT, generation=known.generation + 1, previous=known.generation_sum, node=…, fence=…,
                    made_us=…, through_row=…, next_stream=…, next_bucket=…, epoch_base=…, epoch_newest=…,
                    complete=told.complete)            # `records` is counted by compose
    data = compose(header, [*told.records, *map(Object.of, facts), *(Drop(made=each) for each in inputs)], ends_files)
    check(store, node, fence)
    sum = chain.commit(header, data)                   # Fenced: stop. AlreadyPublished: reconcile, then compose again.
                                                       # StoreUnavailable: commit the same bytes again, or reconcile
    published(db, header, sum, facts, inputs, told.newest_change, now_us)                 # on the writer
    keep(folder, header.generation, data)              # optional: the mirror need not fetch it
    chain.point(header.generation)                     # now and then

A start of an empty data folder from the bucket, before anything in it is opened:

    bootstrap(chain, data, secrets.token_hex(16), host, now_us)     # streams.db and catalogue/ are there; owned

A snapshot, every so many generations:

    arguments = feed(chain, folder, generation, sum)             # then the worker: "mirror"
    arguments = feed(chain, folder, generation, sum, anew=True)  # and again, if it answers {"broken": why}
    answer = "snapshot" {"folder": …, "part_bytes": PART_BYTES}  # the worker again
    put_snapshot(store, *parts_of(answer))
"""

from streams_node.manifest.chain import AlreadyPublished, Chain
from streams_node.manifest.compose import compose, parse
from streams_node.manifest.feed import feed, keep
from streams_node.manifest.local import Changes, Local, changes, local, own, published
from streams_node.manifest.mirror import PART_BYTES, parts_of
from streams_node.manifest.owner import Owner, check, claim, look, take_over
from streams_node.manifest.reconcile import Found, apply_found, reconcile, unapplied
from streams_node.manifest.records import (
    FORMAT,
    Bucket,
    Drop,
    End,
    Gone,
    Header,
    Object,
    Producer,
    Record,
    Schema,
    Stream,
    Unknown,
    encode,
)
from streams_node.manifest.restore import Restored, bootstrap
from streams_node.manifest.snapshots import Listed, put_snapshot, snapshots

__all__ = [
    "FORMAT",
    "PART_BYTES",
    "AlreadyPublished",
    "Bucket",
    "Chain",
    "Changes",
    "Drop",
    "End",
    "Found",
    "Gone",
    "Header",
    "Listed",
    "Local",
    "Object",
    "Owner",
    "Producer",
    "Record",
    "Restored",
    "Schema",
    "Stream",
    "Unknown",
    "apply_found",
    "bootstrap",
    "changes",
    "check",
    "claim",
    "compose",
    "encode",
    "feed",
    "keep",
    "local",
    "look",
    "own",
    "parse",
    "parts_of",
    "published",
    "put_snapshot",
    "reconcile",
    "snapshots",
    "take_over",
    "unapplied",
]
