"""One ordered view of a stream: whatever the tiers that hold its entries, a page is whole entries from a position on.

Owns     nothing that outlives a request.
Pulls    slices of the log (later also of packs and segments) as a plan of parts names them.
Hands on pages to the HTTP edge.
Keeps    a page never shows an entry that is not on disk, never splits an entry, and always holds at least one when
         the position is below the end.
Dies     nothing is left behind.
"""
