"""Wakes live readers, and keeps the newest entries of the streams they follow in memory.

Owns     one `Hub` for each stream with live readers, and their byte-capped hot tails.
Pulls    committed batches from `ingest`.
Hands on wake-ups and recent entries to long-polls and event streams.
Keeps    a hub shows only what is on disk; its entries are contiguous up to the stream's end; a reader that has fallen
         behind the hot tail reads the database instead. Readers and bytes are capped over the whole node.
Dies     nothing is left behind; clients reconnect at their offset.
"""
