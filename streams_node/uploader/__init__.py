"""Brings sealed files into the bucket, publishes them, and frees the log of what they hold.

Owns     the order of things: objects, then the generation that names them, then one transaction, then the log's rows.
Pulls    seals and rewrites that other stages put into its outbox; what changed since the newest generation.
Hands on news: how far the bucket is, to whoever waits for a flush.
Keeps    a row leaves the log only after a published generation names the objects that hold its entries, and after the
         heads are written up to it; what is published twice is published once.
         What is published has the checksum with which it was made. A file that was lost or changed since then is made
         anew, out of the log or out of the objects that it was to replace, which are all still there.
Dies     before the generation is put: the objects are orphans, and the log is sealed again. Between the generation and
         the transaction: the next start finds the generation and applies it. While rows are freed: the next start goes
         on with it.
"""

from streams_node.uploader.outbox import Outbox
from streams_node.uploader.publisher import Publisher
from streams_node.uploader.stage import Uploader

__all__ = ["Outbox", "Publisher", "Uploader"]
