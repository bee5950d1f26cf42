"""What the families share: a run is a sorted Parquet file of rows with distinct sort keys.

Owns     the file (`files`) and the block-wise merge of sorted runs (`merge`).
Pulls    nothing.
Hands on `RunWriter`, `RunReader`, `Written`, `IndexDamaged`, `IndexTooNew`, `merge_blocks`.
Keeps    rows leave a writer in the order of the family's key, each key once; a reader verifies page checksums, and the
         checksum of the whole when it is told it.
Dies     while writing: `RunWriter` leaves no file when it is left early, a killed process one that nothing names.
"""

from indexers.runs.damage import IndexDamaged, IndexTooNew
from indexers.runs.files import Family, RunReader, RunWriter, Source, Target, Written
from indexers.runs.merge import Living, alive, combined, merge_blocks, moved

__all__ = [
    "Family",
    "IndexDamaged",
    "IndexTooNew",
    "Living",
    "RunReader",
    "RunWriter",
    "Source",
    "Target",
    "Written",
    "alive",
    "combined",
    "merge_blocks",
    "moved",
]
