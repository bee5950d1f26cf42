"""Makes one copy: the steps that run in a thread. Nothing here knows what else is cached."""

import contextlib
import os
from pathlib import Path
from typing import Protocol

from streams_node.errors import ObjectDamaged
from streams_node.objects.counts import Owner
from streams_node.objects.keys import Key
from streams_node.objects.protocol import Checksum, Fetched
from streams_node.protocol.numbers import StreamId

RANGE_BYTES = 8 << 20  # one request; a few at once fill a line, and a lost one costs little
_READ_BYTES = 1 << 20


class Digest(Protocol):
    @property
    def name(self) -> str: ...

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class Facts(Protocol):
    """What is known of an immutable object, whichever it is."""

    @property
    def made(self) -> str: ...

    @property
    def bytes(self) -> int: ...

    @property
    def stream(self) -> int | None:
        """Whom its requests are counted for; None: nobody in particular."""

    def key(self) -> Key: ...

    def digest(self) -> tuple[Digest, str]:
        """A hash that has seen nothing yet, and what all of the object's bytes make of it."""


class Source(Protocol):
    """As much of a `RetryingStore` as is used here."""

    def get(
        self,
        key: Key,
        start: int = 0,
        end: int | None = None,
        *,
        expected: Checksum | None = None,
        owner: Owner = None,
    ) -> Fetched: ...


def ranges(size: int) -> list[tuple[int, int]]:
    """The requests that an object takes."""
    return [(start, min(start + RANGE_BYTES, size)) for start in range(0, size, RANGE_BYTES)]


def create(path: Path) -> None:
    """A new, empty file."""
    path.open("xb").close()


def fetch_range(source: Source, facts: Facts, path: Path, start: int, end: int) -> None:
    """One request, written to its place in the file."""
    owner = None if facts.stream is None else StreamId(facts.stream)
    data = source.get(facts.key(), start, end, owner=owner).data
    with path.open("r+b", buffering=0) as file:  # of its own: a fetch that was given up may end late
        file.seek(start)
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


def beginning(source: Source, facts: Facts, size: int) -> bytes:
    """The first bytes of an object; as with `ending`, nothing vouches for them here."""
    owner = None if facts.stream is None else StreamId(facts.stream)
    return source.get(facts.key(), 0, size, owner=owner).data


def ending(source: Source, facts: Facts, size: int) -> bytes:
    """The last bytes of an object. Nothing vouches for them here: they are of a format that does."""
    owner = None if facts.stream is None else StreamId(facts.stream)
    return source.get(facts.key(), facts.bytes - size, facts.bytes, owner=owner).data


def link(local: Path, facts: Facts, path: Path) -> bool:
    """Another name for the object's own file; False where that cannot be done, and a copy has to do."""
    try:
        os.link(local / facts.key(), path)
    except OSError:
        return False
    return True


def damage(path: Path, facts: Facts) -> str | None:
    """What is wrong with a file that should be this object."""
    (digest, wanted), size = facts.digest(), 0
    with path.open("rb", buffering=0) as file:
        while part := file.read(_READ_BYTES):
            digest.update(part)
            size += len(part)
    if size != facts.bytes:
        return f"it has {size} bytes, not {facts.bytes}"
    seen = digest.hexdigest()
    return None if seen == wanted else f"its {digest.name} is {seen}, not {wanted}"


def check(path: Path, facts: Facts) -> None:
    """ObjectDamaged unless the file is this object."""
    problem = damage(path, facts)
    if problem:
        raise ObjectDamaged(facts.made, problem)


def remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
