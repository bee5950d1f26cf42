"""Deletes from the bucket what nobody needs any more: the only room that does.

Owns     the moment at which an object leaves the bucket, and then its row.
Pulls    objects that left the catalogue `object_grace_ms` ago; the two newest whole snapshots; and, now and then, a
         listing of packs, segments and indexes, against which it holds what this folder knows.
Hands on nothing.
Keeps    nothing is deleted that a generation names, or one in the making will: an object is deleted when it is dead in
         the database, or when neither the database nor anybody who uploads knows it and it is old by the store's clock.
         Nothing at all is deleted while the bucket may be another node's, or has generations that this node does not
         know. An object of an index stays until the catalogue has been told that it is dead, and one that was never
         committed for longer than any claim may take. Foreign names stay. Two whole snapshots, looked at part by part,
         and all generations from the older one on stay.
         Deletes are paced, so that they never crowd out uploads.
Dies     before a delete: it is done later. Between a delete and its row: it is repeated, which is no harm.
         Between two parts of a snapshot: its index went first, so the rest is known to be of no use.

    Collector(database=…, store=…, settings=…, trusted=…, in_flight=…).run()
    await collector.collect_dead() / .collect_catalogue() / .collect_orphans()     one pass each: how many went
"""

from streams_node.collector.stage import Collector, Counts

__all__ = ["Collector", "Counts"]
