"""The SQLite database: the log, the heads of streams, and all metadata.

Owns     `streams.db` (with its -wal and -shm files) and the folder's lock; every table in `sql/migrations`.
Pulls    nothing; batches are handed to `commit`, reads ask for rows.
Hands on rows of the log, states of streams, pages of listings.
Keeps    an append is one statement and one fsynced transaction; rows are never changed once written;
         `heads` and `producers` are complete up to the row named by `heads_through`, and never ahead of the log.
Dies     during a commit: SQLite rolls it back, nobody was answered. Between a commit and the slice that writes its
         heads: start-up replays the rows above `heads_through`. While freeing a dead stream: the grave says how far
         it came.
"""
