"""Seals the log: every row up to one, of all streams at once, goes into a few files, and those to the uploader.

Owns     files in `sealing/` that no seal has been handed on with; how far the log is sealed, in memory only.
Pulls    the log, as soon as enough of it, or something old enough, is not sealed, or somebody demands it (`stage`).
Hands on a `Seal` through the outbox, which makes it wait while the bucket is slower than the log.
Keeps    a seal holds every entry of its stretch of the log, except those of dead streams and of stuck ones; it ends
         where an append ends, so no entry is ever cut in two. A stream that had 1 MiB in the stretch gets segments of
         its own, all others share one pack. What the catalogue learns of a stream's end comes from these very rows.
         A stream whose rows contradict each other is left out whole and marked as stuck, and its rows stay.
Dies     the child that builds: files without a seal, removed before the next attempt. The node: the folder is emptied
         at its start, and the log sealed again from where it has been released to.

    segmenter = Segmenter(database=…, folder=…, worker=Worker("segmenter"), settings=settings, log=pressure,
                          put=outbox.put_seal, stick=…, sealed_row=released_through)
    asyncio.create_task(segmenter.run(), name="segmenter")
    row = segmenter.demand()      # all that is on disk by now will be sealed: up to this row; wait for its publish

`stage` is the loop in the node. `build` runs in a worker's child: `rows` takes a stretch of the log, which `slices`
reads, and `plain` where rows are one small entry each; `columns` has it sorted by stream; `check` finds the streams
that are stuck, `batches` makes entries of rows, `ends` the lines for the catalogue. They speak by `messages`.
"""
