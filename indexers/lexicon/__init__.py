"""The lexicon of routing keys: which keys a stream has, in byte order, and in which objects.

Owns     the format of lexicon runs.
Pulls    nothing: (stream, key) columns of sealed objects come in.
Hands on, from this package:

    build(objects, target) -> Written       objects: (id, tables with `stream` and `key`), each object once
    merge(readers, target) -> Written       the runs of disjoint entries as one
    Lexicon(source)                         .keys(stream, after), .blocks the same in lists,
                                            .objects_of(stream, key), .ordinals_of the same
    first_keys(blocks of runs, most)        distinct keys over many runs
    key_page(lexicons, stream, after=, limit=) -> KeyPage      a page of them

Keeps    every key of every entry is in the run once a stream, with all objects that hold it and the number of entries;
         entries without a key are not. Keys are ordered by the bytes of their UTF-8, surrogate pairs too.
Dies     while writing: a file that nothing names.
"""

from indexers.lexicon.read import KeyPage, Lexicon, first_keys, key_page
from indexers.lexicon.write import FAMILY, build, merge

__all__ = ["FAMILY", "KeyPage", "Lexicon", "build", "first_keys", "key_page", "merge"]
