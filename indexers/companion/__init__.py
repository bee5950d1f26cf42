"""Text companions: a Tantivy index of the declared fields of many entries, as one file.

Owns     the format of companions: the columns of their Tantivy index (`layout`), and the file that it is packed into
         (`pack`); how many of them become one index, to be searched or to be merged (`stitch`).
Pulls    nothing: columns of canonical values come in, a file or a folder goes out.
Hands on, from this package:

    Layout(fields)                          which columns a field has
    Writer(config, layout, folder)          .add(streams, seqs, times, table), .finish(target, objects, covers)
    merge(packs, keep, folder, target)      one companion of several of one configuration
    Pack(source)                            an opened file: .directory, .unpack(folder), .bytes_of
    directory_of(beginning, name)           the same directory out of the first bytes, or how many it takes
    View(packs, folder)                     one searcher over them: .searcher, .schema, .layout
    stitching_works()                       whether this Tantivy lets indexes be put together as this room does

Keeps    every entry of a cover is a document, with the columns `seg` (stream) and `row` (sequence), whatever is in it.
         What a column cannot hold as it is (integers and dates outside of 64 bits, terms beyond TERM_BYTES_MAX, text
         that is not Unicode, several texts apart from each other) is clamped, left out or run together, and the
         document says so in its column `inexact`: the evaluator decides about it. All else is as the evaluator sees
         it. Nothing is stored: a document is a row of a sealed object. A damaged file is `IndexDamaged`, before
         anything is searched.
Dies     while writing: files in the folder it was given. While searching: a folder of links.
"""

from indexers.companion.layout import TERM_BYTES_MAX, ColumnsOf, Layout
from indexers.companion.merge import merge
from indexers.companion.pack import Directory, FieldFacts, Pack, directory_of
from indexers.companion.stitch import StitchingBroken, stitching_works
from indexers.companion.view import View
from indexers.companion.write import Writer

__all__ = [
    "TERM_BYTES_MAX",
    "ColumnsOf",
    "Directory",
    "FieldFacts",
    "Layout",
    "Pack",
    "StitchingBroken",
    "View",
    "Writer",
    "directory_of",
    "merge",
    "stitching_works",
]
