"""The exact index: which objects hold a value of a declared exact field.

Owns     the format of exact runs and of their filters; the hash of a value.
Pulls    nothing: (stream, field, value) columns come in, values as `search.language.exact_text` spells them.
Hands on, from this package:

    build(objects, target) -> Built         objects: (id, tables with `stream`, `field`, `value`), each object once
    merge(readers, target) -> Built         the runs of disjoint entries as one; Built is (written, filter)
    may_hold(filter, stream, field, value)  filter: Filter(data), kept in memory; False: do not read the run
    Exact(source)                           .objects_of(stream, field, value), .ordinals_of the same

Keeps    what an index does not name, its objects do not hold: it never misses. What it names, they hold, but for values
         beyond STORED_BYTES_MAX, of which only the hash and the beginning are compared. A filter says `no` only where
         the run says so too.
Dies     while writing: a file that nothing names.
"""

from indexers.exact.filter import Filter
from indexers.exact.read import Exact, may_hold
from indexers.exact.write import FAMILY, STORED_BYTES_MAX, Built, build, counted, merge, utf8, values_of

__all__ = [
    "FAMILY",
    "STORED_BYTES_MAX",
    "Built",
    "Exact",
    "Filter",
    "build",
    "counted",
    "may_hold",
    "merge",
    "utf8",
    "values_of",
]
