"""The lexicon of routing keys: which keys a stream has, in byte order, and in which objects.

Owns     the format of lexicon runs.
Pulls    nothing: (stream, key) columns of sealed objects come in.
Hands on, from this package:

    build(objects, target) -> Written       objects: (id, tables with `stream` and `key`), each object once
    merge(readers, target) -> Written       the runs of disjoint entries as one
    Lexicon(source)                         .keys(stream, after), .objects_of(stream, key), .ordinals_of the same
    key_page(lexicons, stream, after=, limit=) -> KeyPage      distinct keys over many runs

Keeps    every key of every entry is in the run once a stream, with all objects that hold it and the number of entries;
         entries without a key are not. Keys are ordered by the bytes of their UTF-8, surrogate pairs too.
Dies     while writing: a file that nothing names.
"""

from indexers.lexicon.read import KeyPage, Lexicon, key_page
from indexers.lexicon.write import FAMILY, build, merge

__all__ = ["FAMILY", "KeyPage", "Lexicon", "build", "key_page", "merge"]
