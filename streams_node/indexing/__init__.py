"""What is indexed, what should be, and who is at it: the node's side of the indexes.

Owns     the tables `index_plans`, `index_objects`, `index_covers`, `index_untold`; the leases of index drivers.
Pulls    news of published objects and changed plans; claims, renewals and commits of drivers.
Hands on covers to whoever answers from indexes; lines for the catalogue.
Keeps    covers of one stream, family and configuration never overlap; a cover names entries and not objects, so merging
         sealed objects changes none. A lease that ended commits nothing.
Dies     within a commit: SQLite rolls it back, and its index objects are orphans that the collector deletes. After it,
         before the catalogue is told: `index_untold` says so, and it is told with the next generation. Leases are in
         memory: a restart ends them all, and their work is claimable again.
"""

from streams_node.indexing.covers import NO_PLAN, Covering, Plan, covers_of, plan_of_stream

__all__ = ["NO_PLAN", "Covering", "Plan", "covers_of", "plan_of_stream"]
