"""Metric blocks: the records of the metrics profile as columns, a row an entry.

Owns     the format of metric blocks.
Pulls    nothing: records come in, as the current version has them.
Hands on, from this package:

    rows_of(streams, seqs, times, records) -> table     rows of the format for neighbouring entries
    build(objects, target) -> Written       objects: (id, tables), each object once
    merge(readers, target) -> Written       the blocks of disjoint entries as one
    Metrics(source)                         .records(stream, first, end, begin, before)

Keeps    a row is its record: what a reader makes of it is equal to what was stored, number for number. A record that
         does not fit the columns is kept as JSON beside them; what is no object has a row, too, and no record.
Dies     while writing: a file that nothing names.
"""

from indexers.metrics.read import Metrics, Row
from indexers.metrics.write import FAMILY, build, merge, rows_of

__all__ = ["FAMILY", "Metrics", "Row", "build", "merge", "rows_of"]
