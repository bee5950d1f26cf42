"""Puts the stages below the log together: the store, sealing, publishing, compaction, collection, and reading back.

Owns     which stage hands what to which; the backlog and its bounds.
Pulls    commits, as the ledger tells of them.
Hands on how far the bucket is (`generation`, `flush`), and the reader of sealed entries.
Keeps    a store that is away stops the stages and not the node: reads go on, and so do appends up to a bound.
Dies     anywhere: each stage says in its own room what is left and who takes it up.
"""

from streams_node.tiering.bootstrap import bootstrap
from streams_node.tiering.node import Tiering

__all__ = ["Tiering", "bootstrap"]
