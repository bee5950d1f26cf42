"""Whole copies of immutable objects on the local disk, so that a second read of history asks the bucket nothing.

Owns     the folder `cache/`: `<object>-<number>.parquet`, and `….part` while a copy is made. It may be deleted at
         any time.
Pulls    objects from the store, in ranges and several at once, when a reader wants one or is about to; or takes the
         file that was just uploaded (`adopt`); or, beside a folder store on the same disk, a hard link, which costs no
         room.
Hands on `Cache.held(facts)`: a file that stays for as long as the block runs.
Keeps    a copy has the size and the checksum of its facts before anybody sees it: as it comes, and once more when it is
         first used after a start, as nothing here is ever fsynced.
         One fetch an object, however many wait for it; whoever gives up waiting does not stop it.
         Requests that stand still, and objects that do not get on, give their turn to others, up to a number of them;
         what is done to files has threads of its own. So a store that hangs for some objects stops no reader of others.
         Files have names of their own, so a copy that was evicted or found damaged never takes a new one with it, and
         a file that is being read is unlinked only afterwards.
         No more than `bytes_max`, but for what is being read; the longest unused leave first.
         A disk that is full or read-only is no reader's error: the copy is then made elsewhere, for that one read.
Dies     at any point: a `.part` is removed at the next start; a whole copy is found by its name, and not yet trusted.

    cache = await Cache.open(folder, store, limits, local=root_of_a_folder_store)
    async with cache.held(facts) as path: ...     StoreError of the fetch; ObjectMissing; ObjectDamaged; Overloaded
    async with cache.held(facts, at_leisure=True) as path: ...    with one request at a time, for stages
    await cache.ending(facts, size)               its last bytes, without a copy
    await cache.beginning(facts, size)            its first bytes
    cache.ahead(facts)                            fetch it in the background, if there is nothing better to do
    await cache.adopt(made, file)                 take a file that was just uploaded; False: left where it is
    await cache.drop(made)                        its copy is damaged, or its object is gone
"""

from streams_node.cache.copies import Cache, CacheCounts, Limits

__all__ = ["Cache", "CacheCounts", "Limits"]
