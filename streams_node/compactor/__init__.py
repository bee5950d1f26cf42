"""Rewrites sealed objects: many small ones become few, grown streams get their own, and what is dead disappears.

Owns     the folder `making/`, and what is dead in which pack (`objects.dead_entries`).
Pulls    what the catalogue names, by way of `placement/backlog.py`; copies of the inputs from the cache.
Hands on a `Rewrite` at a time, and waits until it was published or refused.
Keeps    the same living entries: each is in exactly one object before a job, and after it.
         A job takes about 128 MiB of payload at most; between two jobs there is a rest.
         An object that cannot be rewritten is left alone for a while, longer each time; its neighbours go on.
Dies     at any point: files in `making/` that nobody names, removed at the next start; objects that were uploaded and
         not published are orphans, which the collector takes. The plan is made of what is published, so a merge that
         was half done goes on.

`slots`, `merges`, `windows` and `plan` decide, `runs` and `build` do the work in a worker, `stage` is the loop.
Why it is done this way: docs/decisions/0010-compaction.md.
"""
