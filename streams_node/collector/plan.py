"""What may go, decided on plain values."""

from collections.abc import Collection, Iterable, Sequence

from streams_node.manifest.records import INDEX_PART
from streams_node.manifest.snapshots import Listed as ListedSnapshot
from streams_node.objects.keys import INDEX_FAMILIES, Generation, Key, parse, snapshot_key
from streams_node.objects.protocol import Listed


def old_objects(listed: Iterable[Listed], modified_before_us: int) -> dict[str, Key]:
    """Packs and segments of a listing that are old enough to be orphans, by their ids. Foreign names are left out."""
    found: dict[str, Key] = {}
    for each in listed:
        place = parse(each.key)
        if place and place.made and place.artifact in ("pack", "segment") and each.modified_us <= modified_before_us:
            found[place.made] = each.key
    return found


def old_indexes(listed: Iterable[Listed], modified_before_us: int) -> dict[str, list[Key]]:
    """Objects of indexes that are old enough to be orphans, by their ids: a run and its filter have one."""
    found: dict[str, list[Key]] = {}
    for each in listed:
        place = parse(each.key)
        if place and place.made and place.artifact in INDEX_FAMILIES and each.modified_us <= modified_before_us:
            found.setdefault(place.made, []).append(each.key)
    return found


def orphans(old: dict[str, Key], in_flight: Collection[str], known: Collection[str]) -> list[tuple[str, Key]]:
    """Those that nobody knows.

    `in_flight` is asked for before `known`: what is published in between leaves the one only when it is in the other.
    """
    return [(made, key) for made, key in old.items() if made not in in_flight and made not in known]


def old_generations(listed: Iterable[Listed], oldest_kept: int) -> list[Key]:
    """Generations that every kept snapshot includes, oldest first."""
    found = []
    for each in listed:
        place = parse(each.key)
        if place and place.artifact == "generation" and place.generation is not None and place.generation < oldest_kept:
            found.append(each.key)
    return found


def old_parts(snapshots: Sequence[ListedSnapshot], oldest_kept: int) -> list[Key]:
    """The parts of older snapshots, each index first: without it a snapshot counts for nothing."""
    return [
        snapshot_key(Generation(snapshot.generation), part)
        for snapshot in snapshots
        if snapshot.generation < oldest_kept
        for part in sorted(snapshot.parts, key=lambda part: part != INDEX_PART)
    ]
