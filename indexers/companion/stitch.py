"""Several Tantivy indexes of one schema as one: their files side by side, their segments in one list.

Tantivy has no function for it. What is relied on: an index is `meta.json` and the files that it names, `meta.json` has
a list `segments`, files are named after the `segment_id`, and a file does not know its own name. `stitching_works`
tries it out on two small indexes; the version of Tantivy is pinned.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import tantivy
import xxhash

META = "meta.json"
_MANAGED = ".managed.json"
_NAMES = UUID("6f1f1f0e-5d0c-5d0e-9a51-0b6a3c3f6a55")  # of segments: named after their content
_HEAP_BYTES = 15_000_000  # the least that Tantivy takes


class StitchingBroken(RuntimeError):
    """The Tantivy at hand lays out its files in another way than the one that this room was written for."""


def stitch(folders: Sequence[Path], out: Path) -> None:
    """One index in a new folder, of hard links."""
    out.mkdir(parents=True)
    meta: dict[str, Any] | None = None
    names = [META]
    for folder in folders:
        each = json.loads((folder / META).read_text())
        if meta is None:
            meta = {**each, "segments": []}
        if each["schema"] != meta["schema"] or each["index_settings"] != meta["index_settings"]:
            raise ValueError("only indexes of one schema can be stitched")
        meta["segments"] += each["segments"]
        meta["opstamp"] = max(meta["opstamp"], each["opstamp"])
        for name in files_of(folder, each):
            os.link(folder / name, out / name)
            names.append(name)
    (out / META).write_text(json.dumps(meta))
    (out / _MANAGED).write_text(json.dumps(names))


def counted(folder: Path) -> list[int]:
    """The documents of each segment of an index, in their order, with those that are deleted and still there."""
    return [int(each["max_doc"]) for each in json.loads((folder / META).read_text())["segments"]]


def files_of(folder: Path, meta: dict[str, Any]) -> list[str]:
    """The files of the segments that `meta` lists; what else is there belongs to nothing."""
    listed = {each["segment_id"].replace("-", "") for each in meta["segments"]}
    return sorted(path.name for path in folder.iterdir() if path.name.partition(".")[0] in listed)


def named_by_content(folder: Path) -> list[str]:
    """Rename the segments after what is in them: equal indexes are equal files. All names, `meta.json` first."""
    meta = json.loads((folder / META).read_text())
    found = list[str]()
    for segment in meta["segments"]:
        files = files_of(folder, {"segments": [segment]})
        digest = xxhash.xxh3_128()
        for name in files:
            digest.update(name.partition(".")[2].encode())
            digest.update((folder / name).read_bytes())
        named = uuid5(_NAMES, digest.hexdigest())
        for name in files:
            found.append(f"{named.hex}.{name.partition('.')[2]}")
            (folder / name).rename(folder / found[-1])
        segment["segment_id"] = str(named)
    meta["segments"].sort(key=lambda segment: str(segment["segment_id"]))
    meta["opstamp"] = 0 if all(segment["deletes"] is None for segment in meta["segments"]) else meta["opstamp"]
    (folder / META).write_text(json.dumps(meta))
    return [META, *sorted(found)]


@cache
def stitching_works() -> bool:
    """Whether two small indexes become one that finds what is in both, as a view and merged."""
    schema = tantivy.SchemaBuilder().add_text_field("t", tokenizer_name="raw").add_integer_field("n", fast=True).build()
    # The thread that watches an open index may look for its lock file while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folders = [Path(scratch) / str(number) for number in range(2)]
        try:
            for number, folder in enumerate(folders):
                folder.mkdir()
                _tiny(schema, folder, number)
            whole = Path(scratch) / "whole"
            stitch(folders, whole)
            return _finds_both(schema, whole)
        except (OSError, ValueError, KeyError, TypeError):
            return False


def _tiny(schema: tantivy.Schema, folder: Path, number: int) -> None:
    writer = tantivy.Index(schema, str(folder)).writer(_HEAP_BYTES, 1)
    writer.add_json(json.dumps({"t": f"t{number}", "n": number}))
    writer.commit()
    writer.wait_merging_threads()
    named_by_content(folder)


def _finds_both(schema: tantivy.Schema, folder: Path) -> bool:
    searcher = tantivy.Index.open(str(folder)).searcher()
    for number in range(2):
        hits = searcher.search(tantivy.Query.term_query(schema, "t", f"t{number}"), limit=2).hits
        if searcher.fast_field_values("n", [address for _, address in hits]) != [number]:
            return False
    return bool(searcher.num_docs == 2)  # noqa: PLR2004 - one each
