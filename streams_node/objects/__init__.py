"""The object store: where sealed data lives, behind one small protocol.

Owns     the layout of a bucket (keys.py), the stores (folder/, s3.py, memory.py), the one retry layer (retry.py) and
         the counts of requests (counts.py).
Pulls    nothing: callers put and get, in their own bounded executors, as every call blocks.
Hands on `Stored` and `Fetched` whose bytes are verified, or a `StoreError` that says what to do.
Keeps    nothing is ever written unconditionally: an object is created, or replaced by who knows its state.
         A put is done once or not at all, however often it is sent, and whoever asks later can find out.
         A store that ignores conditions is refused before anything is written there (probe.py).
Dies     between any two steps: each store's docstring says what is left; nothing of it is ever taken for an object.
"""

from streams_node.objects.counts import Owner, RequestCounts, Row, Tally
from streams_node.objects.faults import Fault, FaultPlan, FaultyStore
from streams_node.objects.folder import FolderStore
from streams_node.objects.keys import Generation, Key, KeyPrefix, ObjectId
from streams_node.objects.memory import MemoryStore
from streams_node.objects.opening import connect, open_store
from streams_node.objects.payload import checksum_of
from streams_node.objects.probe import Finding, findings, require_conditions
from streams_node.objects.protocol import (
    Checksum,
    ETag,
    Fetched,
    Listed,
    ObjectStore,
    Page,
    Stored,
    WriteId,
)
from streams_node.objects.retry import RetryingStore, RetryPolicy

__all__ = [
    "Checksum",
    "ETag",
    "Fault",
    "FaultPlan",
    "FaultyStore",
    "Fetched",
    "Finding",
    "FolderStore",
    "Generation",
    "Key",
    "KeyPrefix",
    "Listed",
    "MemoryStore",
    "ObjectId",
    "ObjectStore",
    "Owner",
    "Page",
    "RequestCounts",
    "RetryPolicy",
    "RetryingStore",
    "Row",
    "Stored",
    "Tally",
    "WriteId",
    "checksum_of",
    "connect",
    "findings",
    "open_store",
    "require_conditions",
]
