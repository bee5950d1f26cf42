"""Makes one companion of several of one configuration: their indexes are stitched, then Tantivy merges the segments.

Tantivy merges when there are at least eight segments of about one size, so whoever orders a merge chooses such ones.
With fewer, the companion has several segments, and answers alike, at more cost of each. Documents of covers that are
gone are deleted before.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import tantivy

from indexers.companion.layout import ROW, SEG
from indexers.companion.pack import Directory, FieldFacts, Pack, write_pack
from indexers.companion.stitch import StitchingBroken, named_by_content, stitch, stitching_works
from indexers.companion.zones import Zone, joined, number
from indexers.messages import Cover
from indexers.runs import IndexDamaged, Written

_HEAP_BYTES = 15_000_000  # the least that Tantivy takes: nothing is added
_Range = tuple[int, int]


def merge(packs: Sequence[Pack], covers: Sequence[Sequence[Cover]], folder: Path, target: Path) -> Written:
    """`covers`: of each pack the living ones, as the pack has them. `folder` is new, and used up."""
    if not stitching_works():
        raise StitchingBroken("companions cannot be merged with this version of tantivy: build them again")
    folders = []
    for at, pack in enumerate(packs):
        folders.append(folder / str(at))
        pack.unpack(folders[-1])
    whole = folder / "whole"
    stitch(folders, whole)
    docs = _merged(packs, covers, whole)
    names = named_by_content(whole)
    return write_pack(target, whole, names, _directory(packs, covers, docs))


def _merged(packs: Sequence[Pack], covers: Sequence[Sequence[Cover]], whole: Path) -> int:
    """Merge the segments in the folder; the number of documents that are left."""
    try:
        index = tantivy.Index.open(str(whole))
        writer = index.writer(_HEAP_BYTES, 1)
        for pack, living in zip(packs, covers, strict=True):
            for stream, first, end in _gone(pack.directory.covers, living):
                writer.delete_documents_by_query(_entries(index.schema, stream, first, end))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        docs = int(index.searcher().num_docs)
    except (ValueError, OSError) as problem:
        raise IndexDamaged(packs[0].name, f"Tantivy cannot merge it: {problem}") from problem
    expected = sum(cover.entries for living in covers for cover in living)
    if docs != expected:
        raise IndexDamaged(packs[0].name, f"merged with others it has {docs} documents, not {expected}")
    return docs


def _entries(schema: tantivy.Schema, stream: int, first: int, end: int) -> tantivy.Query:
    one = tantivy.Query.term_query(schema, SEG, stream)
    rows = tantivy.Query.range_query(schema, ROW, tantivy.FieldType.Unsigned, first, end - 1)
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, one), (tantivy.Occur.Must, rows)])


def _gone(covers: Sequence[Cover], living: Sequence[Cover]) -> list[tuple[int, int, int]]:
    """The entries that are covered here and not named any more, by stream."""
    named: dict[int, list[_Range]] = {}
    for cover in living:
        named.setdefault(cover.stream, []).append((cover.first_seq, cover.end_seq))
    found = []
    for cover in covers:
        at = cover.first_seq
        for first, end in sorted(named.get(cover.stream, [])):
            if end <= at or first >= cover.end_seq:
                continue
            if first > at:
                found.append((cover.stream, at, first))
            at = end
        if at < cover.end_seq:
            found.append((cover.stream, at, cover.end_seq))
    return found


def _directory(packs: Sequence[Pack], covers: Sequence[Sequence[Cover]], docs: int) -> Directory:
    living, objects = list[Cover](), list[str]()
    for pack, each in zip(packs, covers, strict=True):
        living += moved(each, len(objects))
        objects += pack.directory.objects
    first = packs[0].directory
    if any(pack.directory.config != first.config for pack in packs):
        raise ValueError("companions of one configuration are merged")
    return Directory(
        config=first.config,
        docs=docs,
        min_ts=min((cover.min_ts for cover in living), default=0),
        max_ts=max((cover.max_ts for cover in living), default=0),
        objects=objects,
        covers=living,
        fields=[_joined([pack.directory.fields[at] for pack in packs]) for at in range(len(first.fields))],
        files=[],
        zones=joined([_zoned(pack.directory, each) for pack, each in zip(packs, covers, strict=True)]),
    )


def _zoned(
    directory: Directory, living: Sequence[Cover]
) -> tuple[Sequence[Zone], dict[str, tuple[str, str]], Sequence[Cover]]:
    known = {each.name: (each.least, each.most) for each in directory.fields if each.least and each.most}
    return directory.zones, known, living


def moved(covers: Sequence[Cover], before: int) -> list[Cover]:
    """Covers of an input as the output has them: behind so many objects."""
    return [msgspec.structs.replace(cover, ordinal=cover.ordinal + before) for cover in covers]


def _joined(facts: Sequence[FieldFacts]) -> FieldFacts:
    """What is known of a field in all of them. Bounds stay bounds when documents were left out."""
    known = [each for each in facts if each.least is not None and each.most is not None]
    return FieldFacts(
        name=facts[0].name,
        column=facts[0].column,
        docs=sum(each.docs for each in facts),
        inexact=sum(each.inexact for each in facts),
        least=min((each.least for each in known if each.least), key=number, default=None),
        most=max((each.most for each in known if each.most), key=number, default=None),
        full=all(each.full for each in facts),
        single=all(each.single for each in facts),
    )
