"""One ordered view of a stream: whatever the tiers that hold its entries, a page is whole entries from a position on.

Owns     what readers share in memory, each with a bound: open files, decoded row groups, unpacked directories, where
         readers in order go on. Nothing outlives the process.
Pulls    slices of the log; of what has left it, the objects that hold it, as whole copies from the cache.
Hands on pages to the HTTP edge.
Keeps    a page never shows an entry that is not on disk, never splits an entry, and always holds at least one when
         the position is below the end. It is put together from as many places as it takes, within a bound of pieces
         and of time. Flushes, releases, merges, evictions and deletions under a reader cost it a second look, and never
         an entry. An object that is damaged or away is a failure of the pages that need it, and of no other stream.
Dies     nothing is left behind.

    reader = ColdReader(database, cache, settings)                      # one a node; `await reader.close()`
    page = await read_page(database, state, start, bytes_max, raw=False, cold=reader)
    scanned = await read_matching(database, cold, state, start, sieve, bounds)      # some entries: by key, by filter
    seq = await seq_since(database, cold, state, ts)                                # where a time begins

`sealed.py` is what threads share, `cold.py` reads objects, `pages.py` puts log and objects together.
`scan.py` goes on through both with a sieve, `keyed.py` and `filtered.py` are sieves, `since.py` finds a time.
"""
