"""Puts sealed files into the bucket, several at a time, each once, and only as they were made.

What was sealed is freed from the log once it is published: a file that a disk or a stranger has changed since it was
made must not become the object that the catalogue names.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from pathlib import Path

from streams_node.errors import ObjectDamaged
from streams_node.objects import RetryingStore, Stored, WriteId, checksum_of
from streams_node.objects.threads import Threads
from streams_node.placement.made import Made
from streams_node.protocol.numbers import StreamId
from streams_node.testing.crashpoints import crash_point


class Placer:
    """Remembers what is there already, so that a round that failed half-way goes on where it was."""

    def __init__(self, store: RetryingStore, threads: Threads, at_once: int) -> None:
        self._store = store
        self._threads = threads
        self._at_once = asyncio.Semaphore(at_once)
        self._placed: set[str] = set()
        self._sent: set[str] = set()  # and those whose put has begun

    @property
    def in_flight(self) -> set[str]:
        """Objects that may be in the bucket, or may come yet, and that no generation names."""
        return self._sent

    async def place(self, objects: Iterable[Made]) -> None:
        """Put what is not there yet; raises the first failure once all have ended."""
        wanted = [made for made in objects if made.facts.made not in self._placed]
        crash_point("upload.before")
        outcomes = await asyncio.gather(*(self._one(made) for made in wanted), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        crash_point("upload.after")

    async def prove(self, ends: Iterable[Path | None]) -> None:
        """The names of these files are the checksums of their lines for the catalogue."""
        for file in ends:
            if file is not None and await self._threads.run(checksum_of, file) != file.stem:
                raise ObjectDamaged(file.stem, "these lines for the catalogue were changed before they were published")

    async def refuse_spoilt(self, objects: Iterable[Made], ends: Path | None, failure: Exception) -> None:
        """After a failure: say so if a file is not there as it was made, since no other try would help."""
        files = [(made.file, made.facts.sha256) for made in objects if made.facts.made not in self._placed]
        for file, expected in [*files, *([] if ends is None else [(ends, ends.stem)])]:
            try:
                found = await self._threads.run(checksum_of, file)
            except OSError as reason:
                why = f"`{file}` cannot be read any more before it is uploaded: {reason.strerror}"
                raise ObjectDamaged(file.stem, why) from failure
            if found != expected:
                raise ObjectDamaged(file.stem, f"`{file}` was changed before it was uploaded") from failure

    async def _one(self, made: Made) -> None:
        facts = made.facts
        async with self._at_once:
            self._sent.add(facts.made)
            owner = None if facts.stream is None else StreamId(facts.stream)
            put: Awaitable[Stored] = self._threads.run(
                self._store.put, facts.key(), made.file, write_id=WriteId(facts.made), owner=owner
            )
            stored = await put
        if stored.checksum != facts.sha256:
            raise ObjectDamaged(facts.made, "its file was changed before it was uploaded")
        self._placed.add(facts.made)
        crash_point("upload.between")

    def forget(self, objects: Iterable[Made]) -> None:
        """A generation names them now, or nobody ever will."""
        names = {made.facts.made for made in objects}
        self._placed -= names
        self._sent -= names
