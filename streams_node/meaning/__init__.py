"""What the entries of a stream mean: its registry and its profile, joined and compiled, for writes and for reads.

Owns     `Standing`, what a stream is declared to be, and `Meaning`, the same made ready: validator, routing key,
         lenses, and the hook of the profile. The threads that do this work beside the event loop.
Pulls    the stored row of a stream; entries of appends and pages of reads, handed in as bytes.
Hands on entries that may be stored, each with its key; entries of older versions as the current one has them.
Keeps    a meaning never changes: a stream gets another one. Streams that are declared alike share all of it but their
         names and boundaries, within a bound (`common.py`).
         Work on one stream is bounded, in units before it begins or in time while it runs.
Dies     holds nothing that is not stored elsewhere.
"""

from streams_node.meaning.entries import Bounds, Prepared, prepared, prepared_at_once, takes_long
from streams_node.meaning.lenses import StreamLenses
from streams_node.meaning.meaning import Meaning
from streams_node.meaning.pages import Promoted, documents, promoted
from streams_node.meaning.standing import GENERIC, Facts, Standing, Stored, name_of
from streams_node.meaning.workshop import Workshop

__all__ = [
    "GENERIC",
    "Bounds",
    "Facts",
    "Meaning",
    "Prepared",
    "Promoted",
    "Standing",
    "Stored",
    "StreamLenses",
    "Workshop",
    "documents",
    "name_of",
    "prepared",
    "prepared_at_once",
    "promoted",
    "takes_long",
]
