"""Decides every write on the event loop and stores what was decided in group commits.

Owns     the state of streams in memory (an LRU with a byte cap) and the open batch.
Pulls    requests from the HTTP edge; states from the database, on demand, many in one hop.
Hands on batches to `wal.batch.commit`; committed ends and entries to `live`.
Keeps    a decision is a plain function of the state in memory; what it accepts joins the open batch before the loop
         runs anything else, so the order of decisions is the order of the log. Nobody is answered, and no reader sees
         an entry, before its batch is on disk. An answer that rests on an unsettled batch waits for it.
Dies     before the commit: nothing was stored, nobody was answered. After it, before the answer: the entry is there,
         and a producer's retry is answered as a duplicate. On a failed commit everything decided after it is refused
         as well, all states are dropped, and the heads are brought up to the log again.
"""
