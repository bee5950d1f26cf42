"""Globs over the paths of streams, and which subscriptions a path is for. Pure.

A path is cut at its slashes. `*` stands for exactly one segment, `**` for any number of them, none included; every
other segment stands for itself. Streams whose names begin with `__` are the node's own: no glob finds them.

All patterns, and the streams that are named one by one, are one trie, so that finding the subscriptions of a path takes
as long as the path, and does not depend on how many subscriptions there are. It does with patterns that are made for
that: a thousand with many `*` behind `**` let a long path stand at ten thousands of places at once, and that takes
seconds. So a walk pauses now and then, and a commit leaves one that is not over by then to others.
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from streams_node.errors import BadSubscription
from streams_node.wal.listing import DEFAULT_BUCKET
from streams_node.wal.lookup import Name

ONE, ANY = "*", "**"
PATTERN_BYTES_MAX = 1024
SEGMENTS_MAX = 64
ANY_MAX = 4  # of one pattern: each multiplies the places at which a path can stand in the trie
SLICE_PLACES = 1000  # that a walk looks at before it pauses: about half a millisecond
_OWN = "__"
T = TypeVar("T")
Segments = tuple[str, ...]


class Scope(NamedTuple):
    """Where the streams of a pattern can be: in one bucket from a prefix on, and one by its name; or anywhere."""

    bucket: str | None
    prefix: str = ""
    alone: Name | None = None


def segments_of(name: Name) -> Segments:
    """The path of a stream in segments."""
    bucket, stream = name
    if "/" not in stream:
        return (stream,) if bucket == DEFAULT_BUCKET else (bucket, stream)
    return (bucket, *stream.split("/"))


def path_of(name: Name) -> str:
    """The path of a stream, below `/v1/stream/`."""
    return "/".join(segments_of(name))


def parse(pattern: str) -> Segments:
    """The segments of a glob, or what is wrong with it. Slashes around it do not count."""
    if len(pattern.encode("utf-8", "surrogatepass")) > PATTERN_BYTES_MAX:
        raise BadSubscription(f"`pattern` may have {PATTERN_BYTES_MAX} bytes")
    segments = tuple(pattern.strip("/").split("/"))
    if segments == (DEFAULT_BUCKET, ANY):
        raise BadSubscription(f"no glob is for all of `{DEFAULT_BUCKET}`: its streams are matched by `*`")
    if segments[0] == DEFAULT_BUCKET and len(segments) == 2:  # noqa: PLR2004 - `_default/x` is the stream `x`
        segments = segments[1:]
    if len(segments) > SEGMENTS_MAX or segments.count(ANY) > ANY_MAX:
        raise BadSubscription(f"`pattern` may have {SEGMENTS_MAX} segments, {ANY_MAX} of them `**`")
    for segment in segments:
        if not segment:
            raise BadSubscription("`pattern` must have no empty segment")
        if not segment.isprintable():
            raise BadSubscription("`pattern` must have printable characters only")
        if "*" in segment and segment not in {ONE, ANY}:
            raise BadSubscription("`*` and `**` in `pattern` stand for whole segments")
    return segments


def scope_of(segments: Segments) -> Scope:
    """Where streams of the pattern can be. A lone segment is a stream of the default bucket."""
    first = segments[0]
    if len(segments) == 1 and first != ANY:
        return Scope(DEFAULT_BUCKET, "" if first == ONE else first)
    if first in {ONE, ANY}:
        return Scope(None)
    literal: list[str] = []
    for segment in segments[1:]:
        if segment in {ONE, ANY}:
            break
        literal.append(segment)
    alone = Name(DEFAULT_BUCKET, first) if all(segment == ANY for segment in segments[1:]) else None
    return Scope(first, "/".join(literal), alone)


def is_own(name: Name) -> bool:
    """Whether a stream is the node's own."""
    return name.stream.startswith(_OWN)


def fits(pattern: Segments, name: Name) -> bool:
    """Whether one glob matches a stream."""
    places = _behind_any(pattern, {0})
    for segment in segments_of(name):
        wanted = (segment, ONE, ANY)
        moved = {at + (pattern[at] != ANY) for at in places if at < len(pattern) and pattern[at] in wanted}
        places = _behind_any(pattern, moved)
    return len(pattern) in places and not is_own(name)


def _behind_any(pattern: Segments, places: set[int]) -> set[int]:
    """Places in a pattern, and those that are reached from them without a segment."""
    for at in list(places):
        while at < len(pattern) and pattern[at] == ANY:
            at += 1  # noqa: PLW2901 - from here on
            places.add(at)
    return places


class _Place(Generic[T]):
    """A place in the trie, and who is to be told of the paths that end here. One made by `**` takes any segment."""

    __slots__ = ("any", "ends", "named", "next", "one", "stays")

    def __init__(self, *, stays: bool = False) -> None:
        self.next: dict[str, _Place[T]] = {}
        self.one: _Place[T] | None = None
        self.any: _Place[T] | None = None
        self.stays = stays
        self.ends: dict[T, None] = {}
        self.named: dict[T, None] = {}

    @property
    def empty(self) -> bool:
        return not (self.next or self.one or self.any or self.ends or self.named)

    def step(self, segment: str, *, globs: bool) -> "_Place[T] | None":
        """Where a segment of a pattern, or of a name, leads."""
        if globs and segment == ONE:
            return self.one
        if globs and segment == ANY:
            return self.any
        return self.next.get(segment)

    def lead(self, segment: str, place: "_Place[T] | None", *, globs: bool) -> None:
        """Let a segment lead to another place, or nowhere."""
        if globs and segment == ONE:
            self.one = place
        elif globs and segment == ANY:
            self.any = place
        elif place is None:
            del self.next[segment]
        else:
            self.next[segment] = place


class Trie(Generic[T]):
    """Patterns and names, each with who is to be told."""

    def __init__(self) -> None:
        self._root = _Place[T]()
        self._named = 0
        self.size = 0

    def add(self, segments: Segments, who: T) -> None:
        """A pattern of somebody's."""
        self._put(segments, who, globs=True)

    def name(self, name: Name, who: T) -> None:
        """A stream that somebody named: its segments stand for themselves, whatever is in them."""
        self._put(segments_of(name), who, globs=False)

    def remove(self, segments: Segments, who: T) -> None:
        self._take(segments, who, globs=True)

    def unname(self, name: Name, who: T) -> None:
        self._take(segments_of(name), who, globs=False)

    def globs(self, name: Name) -> set[T]:
        """Whose globs match a stream."""
        found: set[T] = set()
        if not is_own(name):
            for _ in self._walk(segments_of(name), found):
                pass
        return found

    def matching(self, name: Name) -> set[T] | None:
        """Who is to be told of a stream, by glob or by name; None if that is not found out within one slice."""
        found: set[T] = set()
        for _ in self.slices(name, found):
            return None
        return found

    def slices(self, name: Name, found: set[T]) -> Iterator[None]:
        """Add who is to be told of a stream, with a pause after each slice but the last one."""
        segments = segments_of(name)
        if self._named:
            self._add_named(segments, found)
        return iter(()) if is_own(name) else self._walk(segments, found)

    def named(self, name: Name) -> set[T]:
        """Who named a stream."""
        found: set[T] = set()
        self._add_named(segments_of(name), found)
        return found

    def _add_named(self, segments: Segments, found: set[T]) -> None:
        at = self._root
        for segment in segments:
            following = at.next.get(segment)
            if following is None:
                return
            at = following
        found.update(at.named)

    def _walk(self, segments: Segments, found: set[T]) -> Iterator[None]:
        places: list[_Place[T]] = []
        looked = 0
        _enter(places, self._root)
        for segment in segments:
            moved: list[_Place[T]] = []
            for place in places:
                looked += 1
                if looked > SLICE_PLACES:
                    looked = 0
                    yield
                if place.stays:
                    _enter(moved, place)
                following = place.next.get(segment)
                if following is not None:
                    _enter(moved, following)
                if place.one is not None:
                    _enter(moved, place.one)
            if not moved:
                return
            places = moved if len(moved) == 1 else list(dict.fromkeys(moved))
        for place in places:
            if place.ends:
                found.update(place.ends)

    def _put(self, segments: Segments, who: T, *, globs: bool) -> None:
        place = self._root
        for segment in segments:
            following = place.step(segment, globs=globs)
            if following is None:
                following = _Place[T](stays=globs and segment == ANY)
                place.lead(segment, following, globs=globs)
            place = following
        ends = place.ends if globs else place.named
        if who not in ends:
            self.size += 1
            self._named += not globs
        ends[who] = None

    def _take(self, segments: Segments, who: T, *, globs: bool) -> None:
        way = [self._root]
        for segment in segments:
            following = way[-1].step(segment, globs=globs)
            if following is None:
                return
            way.append(following)
        ends = way[-1].ends if globs else way[-1].named
        if who not in ends:
            return
        del ends[who]
        self.size -= 1
        self._named -= not globs
        for at in range(len(segments) - 1, -1, -1):
            if not way[at + 1].empty:
                return
            way[at].lead(segments[at], None, globs=globs)


def _enter(places: list[_Place[T]], place: _Place[T]) -> None:
    """Be at a place, and at every one that is reached from it without a segment."""
    places.append(place)
    if place.any is not None:
        _enter(places, place.any)
