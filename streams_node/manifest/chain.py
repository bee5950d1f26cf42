"""The numbered generations in the bucket: whoever creates the next one has committed it.

Keeps    a generation is put if absent, and names the checksum of the one before it: the chain has one history.
         The newest one is found by asking for the next number until there is none: a listing, and the hint `latest`,
         only say where to begin, so neither a stale one nor a wrong one can hide a generation.
Dies     between the put and its answer: the generation is there or not; the same bytes, committed again, find out.
         After it: reconcile.py finds it at the next look.
"""

import contextlib
import hashlib
from collections.abc import Iterator

import msgspec

from streams_node.errors import (
    CatalogueError,
    Fenced,
    ObjectMissing,
    PreconditionFailed,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
)
from streams_node.manifest.compose import parse
from streams_node.manifest.records import FORMAT, Header
from streams_node.objects import Checksum, ETag, Generation, RetryingStore, WriteId
from streams_node.objects.keys import GENERATIONS, LATEST, generation_key
from streams_node.objects.keys import parse as place_of

PUT_BACK = "; put it back from a copy of the bucket"
_SUM_SHOWN = 16  # digits of a checksum that go into a write id


class AlreadyPublished(CatalogueError):
    """The generation is there, by this very node, with other bytes: its answer was lost. Reconcile, then go on."""


class Latest(msgspec.Struct, frozen=True):
    """The content of `latest`."""

    format: int
    generation: int


class Chain:
    """The generations of one bucket."""

    def __init__(self, store: RetryingStore) -> None:
        self.store = store

    def newest(self, hint: int = 0) -> Generation:
        """The number of the newest generation, 0 when there is none. `hint` is one that was there once."""
        start = max(hint, self.pointed())
        newest = self._at_or_after(start)
        if start and newest is None:  # a hint of another life of this place
            newest = self._at_or_after(0)
        return Generation(newest or 0)

    def exists(self, generation: int) -> bool:
        return self.store.head(generation_key(Generation(generation))) is not None

    def fetch(self, generation: int, expected: str | None = None) -> bytes:
        """The bytes of a generation, verified; `expected` is its checksum, for who knows it."""
        key = generation_key(Generation(generation))
        try:
            return self.store.get(key, expected=None if expected is None else Checksum(expected)).data
        except ObjectMissing as problem:
            raise CatalogueError(
                f"generation {generation} of the catalogue is missing (`{key}` in {self.store.place}){PUT_BACK}",
                generation=generation,
            ) from problem
        except StoreCorrupt as problem:
            raise CatalogueError(
                f"generation {generation} of the catalogue is damaged ({problem.message}){PUT_BACK}",
                generation=generation,
            ) from problem

    def header(self, generation: int) -> Header:
        return parse(self.fetch(generation), f"generation {generation}")[0]

    def commit(self, header: Header, data: bytes) -> str:
        """Create the generation; returns its checksum. Repeating it with the same bytes finds out what became of it.

        Fenced: another node's is there. AlreadyPublished: this node's own is there, with other bytes.
        """
        key = generation_key(Generation(header.generation))
        checksum = hashlib.sha256(data).hexdigest()
        attempt = f"{header.node}-{header.fence}-{header.generation}-{checksum[:_SUM_SHOWN]}"
        try:
            self.store.put(key, data, write_id=WriteId(attempt))
        except PreconditionFailed as problem:
            raise self._taken(header) from problem
        return checksum

    def generations(self, after: int = 0) -> Iterator[tuple[Generation, int]]:
        """Numbers and sizes as the store lists them, which may be a little behind."""
        place = generation_key(Generation(after)) if after else None
        while True:
            page = self.store.list(GENERATIONS, place)
            for listed in page.objects:
                found = place_of(listed.key)
                if found is not None and found.generation is not None:
                    yield found.generation, listed.size
            if page.next_after is None:
                return
            place = page.next_after

    # --- the hint ---

    def pointed(self) -> int:
        """What `latest` says; 0 when it says nothing that can be understood."""
        try:
            latest = msgspec.json.decode(self.store.get(LATEST).data, type=Latest)
        except (ObjectMissing, StoreCorrupt, msgspec.DecodeError):
            return 0
        return latest.generation if latest.format == FORMAT and latest.generation > 0 else 0

    def point(self, generation: int) -> bool:
        """Move `latest` forward if that is easily done; nothing depends on it."""
        data = msgspec.json.encode(Latest(FORMAT, generation)) + b"\n"
        with contextlib.suppress(StoreError):
            if self.pointed() >= generation:
                return True
            there = self.store.head(LATEST)
            etag: ETag | None = there.etag if there else None
            self.store.put(LATEST, data, write_id=WriteId(f"latest-{generation}"), if_match=etag)
            return True
        return False

    # --- steps ---

    def _at_or_after(self, start: int) -> int | None:
        """The newest generation from `start` on, which must be there itself unless it is 0."""
        if start and not self.exists(start):
            return None
        listed = sorted((number for number, _ in self.generations(start)), reverse=True)
        newest = next((number for number in listed if self.exists(number)), start)  # a listing may show deleted ones
        while self.exists(newest + 1):
            newest += 1
        return newest

    def _taken(self, ours: Header) -> StoreError:
        try:
            theirs = self.header(ours.generation)
        except StoreUnavailable as problem:
            return problem
        if (theirs.node, theirs.fence) == (ours.node, ours.fence):
            return AlreadyPublished(f"generation {ours.generation} is published already, by this node")
        return Fenced(
            f"node `{theirs.node}` (fence {theirs.fence}) published generation {ours.generation}; this node is "
            f"`{ours.node}` (fence {ours.fence}) and must not publish any more",
            generation=theirs.generation,
            node=theirs.node,
            fence=theirs.fence,
        )
