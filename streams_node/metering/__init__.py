"""Writes the node's own numbers into the node's own stream, `__stream_metrics__`.

Owns     the stream: makes it, with the schema of intervals and nothing else, and appends to it.
Pulls    what `/metrics` shows, once in an interval.
Hands on one record for each series that has something to say, as any client of the profile `metrics` would store it.
Keeps    admission is passed by, so that an overloaded node still tells of it; every other reason to refuse writes
         holds. What this room appends is in no number of appended entries, and the stream has no key and nothing to
         search: nothing is indexed because it is there. While writes are refused, the interval goes on. One whose
         commit failed is not told again.
Dies     at any point: the interval under way is not told of.
"""

from streams_node.metering.series import Reading, Snapshot, readings, records
from streams_node.metering.stream import NAME, Metering

__all__ = ["NAME", "Metering", "Reading", "Snapshot", "readings", "records"]
