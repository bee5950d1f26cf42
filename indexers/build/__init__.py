"""The one pass: stretches of sealed objects in, an index object of every family out.

    with Builder(meanings, folder) as builder:
        for build in work:
            builder.add(build, sealed_rows(path, build))
        for made in builder.finish(new_id): ...

Owns     the order of things: an entry is decoded once, promoted once, and read once a field for all families.
Pulls    rows of sealed objects, and what their streams' entries mean.
Hands on files in `folder`, and for each of them an `IndexObject` as it is committed: one of each family for all objects
         that were added, but one companion a configuration.
Keeps    every entry of a stretch is covered. What is no JSON object, or cannot be promoted, is covered without a value,
         and counted. An object that does not hold what the claim says is `SourceDamaged`, before anything of it is
         taken in, so the others go on. Memory goes by one object, by the distinct values of all of them, and by
         WRITERS_MAX companions in the making.
Dies     leaving files in `folder`, which belongs to whoever runs it.
"""

from indexers.build.builder import Builder
from indexers.build.made import EXTENSIONS, Made

__all__ = ["EXTENSIONS", "Builder", "Made"]
