"""Rollups: what entries of a window of time add up to, per dimension values.

Owns     the format of rollup runs; the bucket of a value in a log2_v1 histogram; how summaries add up.
Pulls    nothing: columns of the entries that contribute come in, as `search.language` has read and filtered them.
Hands on, from this package:

    Part(stream, rollup, times, dimensions, measures, intervals)    entries for one rollup
    Counted, Summarised, Parts              the columns of a measure of each kind
    cells_of(parts) -> [Cells]              what they add up to, in less room: for whoever has many of one object
    build(objects, target) -> Written       objects: (id, Parts or Cells), each object once
    merge(readers, target) -> Written       the runs of disjoint entries as one
    Rollups(source)                         .windows(stream, rollup, interval, begin, end, ordinals)
    windows([(reader, ordinals), …], stream, …)     the same over many runs, added up
    Summary                                 count, sum, min, max, histogram; `+=`

Keeps    a run and its merges tell what a recount of the entries tells: counts, minima, maxima and buckets exactly, sums
         as doubles in some order (exact while all partial sums are whole numbers below 2**53).
Dies     while writing: a file that nothing names.
"""

from indexers.intervals import INTERVAL_MS_MAX
from indexers.rollups.cells import Cells, cells_of
from indexers.rollups.parts import Counted, Measure, Part, Parts, Summarised
from indexers.rollups.read import Rollups, Summary, Window, windows
from indexers.rollups.write import FAMILY, build, merge, parts_of

__all__ = [
    "FAMILY",
    "INTERVAL_MS_MAX",
    "Cells",
    "Counted",
    "Measure",
    "Part",
    "Parts",
    "Rollups",
    "Summarised",
    "Summary",
    "Window",
    "build",
    "cells_of",
    "merge",
    "parts_of",
    "windows",
]
