"""The load of a run: writers that go on over all crashes of one folder, and the questions that follow each start.

Owns     the writers and their streams; every writer has its own connection and does one thing after the other.
Hands on the streams with all their attempts to the judges in `model.py`.
Keeps    a writer ends when its node does, and takes up its work, with its open request, at the next start.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from random import Random

from typing_extensions import override

from tests.crash.model import Attempt, Broken, Outcome, Presence, Stream
from tests.crash.readback import compare_listing, list_bucket, list_node, read_stream
from tests.support.wire import Answer, Lost, Refused, Wire

_UNKNOWN = {"append_timeout", "outcome_unknown"}
_PADS = (0, 0, 10, 10, 10, 80, 300)
_LONG_PAD = 9000  # several log rows when a row is at its least, 4 KiB
_LONG_SHARE = 0.02


class Stopped(Exception):
    """The node takes no writes now: the writer ends until the next start."""


class Unsure(Stopped):
    """The node itself left the outcome of the request open."""


class Writer:
    """One client. `run` works until the node is gone; `name` is in every entry it writes."""

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self.random = Random(f"{seed}/{name}")
        self.number = 0
        self.refusals: list[Answer] = []  # answers that said: not now

    def streams(self) -> Sequence[Stream]:
        raise NotImplementedError

    def buckets(self) -> Mapping[str, Presence]:
        """Buckets of the other surface that it owns alone."""
        return {}

    async def run(self, wire: Wire) -> None:
        raise NotImplementedError

    def entries(self, stream: Stream, count: int = 1) -> list[str]:
        """New entries, each unlike any other ever."""
        self.number += 1
        ends = "" if stream.json else "\n"
        return [f"{self.name}:{self.number}:{at}/{count}:{self._pad()}{ends}" for at in range(count)]

    def _pad(self) -> str:
        long = self.random.random() < _LONG_SHARE
        return "x" * (self.random.randrange(_LONG_PAD) if long else self.random.choice(_PADS))

    async def append(
        self, wire: Wire, stream: Stream, attempt: Attempt, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send an attempt; a success is noted, a refusal is returned, an open outcome ends the writer's run."""
        said = {"content-type": stream.content_type, **(headers or {})}
        if attempt.closes:
            said["stream-closed"] = "true"
        attempt.again()
        stream.touching()
        sent = time.time()
        answer = await self.exchange(wire, "POST", stream.path, said, body_of(stream, attempt), attempt)
        if answer.status < 300:
            stream.touched(sent, time.time())
        elif answer.status == 404:
            stream.missing(time.time())
        return answer

    async def exchange(
        self, wire: Wire, method: str, path: str, headers: Mapping[str, str], body: bytes, attempt: Attempt | None
    ) -> Answer:
        """One request, with its outcome noted where it is a refusal."""
        try:
            answer = await wire.request(method, path, headers, body)
        except Refused:
            if attempt is not None and attempt.outcome is Outcome.OPEN:
                attempt.refused()
            raise
        if answer.status < 300:
            return answer
        code = json.loads(answer.body)["error"]["code"]
        if code in _UNKNOWN:
            raise Unsure
        if attempt is not None and attempt.outcome is Outcome.OPEN:
            attempt.refused()
        if answer.status >= 500 or answer.status == 429:
            self.refusals.append(answer)
            if answer.status not in {429, 503}:
                raise Broken(f"{method} {path}: {answer.status} {answer.body!r}")
            raise Stopped
        return answer

    async def create(
        self, wire: Wire, stream: Stream, headers: Mapping[str, str] | None = None, entries: Sequence[str] = (),
        *, closes: bool = False,
    ) -> Attempt:  # fmt: skip
        """PUT a stream that is known not to be there."""
        attempt = stream.creating(self.name, entries, closes=closes)
        said = {"content-type": stream.content_type, **(headers or {})}
        if stream.ttl_s is not None:
            said["stream-ttl"] = str(stream.ttl_s)
        if closes:
            said["stream-closed"] = "true"
        sent = time.time()
        body = body_of(stream, attempt) if entries else b""
        answer = await self._put(wire, stream, said, body, attempt)
        self.expect(answer, {201}, f"PUT {stream.path}")
        stream.created(attempt, answer.next_offset)
        stream.touched(sent, time.time())
        return attempt

    async def _put(self, wire: Wire, stream: Stream, said: Mapping[str, str], body: bytes, attempt: Attempt) -> Answer:
        try:
            return await self.exchange(wire, "PUT", stream.path, said, body, attempt)
        except (Refused, Stopped):
            if attempt.outcome is Outcome.REFUSED:
                stream.presence = Presence.ABSENT
            raise

    async def delete(self, wire: Wire, stream: Stream) -> None:
        """DELETE a stream that is known to be there."""
        stream.presence = Presence.DELETING
        try:
            answer = await self.exchange(wire, "DELETE", stream.path, {}, b"", None)
        except Unsure:
            raise
        except (Refused, Stopped):
            stream.presence = Presence.PRESENT
            raise
        self.expect(answer, {204}, f"DELETE {stream.path}")
        stream.gone()

    def expect(self, answer: Answer, statuses: set[int], what: str) -> None:
        if answer.status not in statuses:
            raise Broken(f"{self.name}: {what}: {answer.status} instead of {statuses}: {answer.body[:300]!r}")


def body_of(stream: Stream, attempt: Attempt) -> bytes:
    if not attempt.entries or not stream.json:
        return "".join(attempt.entries).encode()
    return json.dumps(attempt.entries if len(attempt.entries) != 1 else attempt.entries[0]).encode()


class Shared(Writer):
    """A writer of a stream that several write to: whoever comes first creates it."""

    def __init__(self, name: str, seed: str, stream: Stream) -> None:
        super().__init__(name, seed)
        self.stream = stream

    @override
    def streams(self) -> Sequence[Stream]:
        return [self.stream]

    async def ensure(self, wire: Wire, lock: asyncio.Lock) -> None:
        async with lock:
            if self.stream.presence is Presence.CREATING:
                raise Stopped  # another's request is open: only the next read-back settles it
            if self.stream.presence is Presence.ABSENT:
                await self.create(wire, self.stream)


class Load:
    """All writers of one folder."""

    def __init__(self, writers: Sequence[Writer], seed: str) -> None:
        self.writers = writers
        self._random = Random(f"{seed}/load")

    def streams(self) -> list[Stream]:
        named = {stream.path: stream for writer in self.writers for stream in writer.streams()}
        return list(named.values())

    async def run(self, port: int) -> None:
        """Until the node is gone, or refuses."""
        await asyncio.gather(*(self._guarded(writer, port) for writer in self.writers))

    async def settle(self, port: int) -> None:
        """After a start: read everything back and hold it against what clients were told."""
        async with Wire(port) as wire:
            buckets = {name: presence for writer in self.writers for name, presence in writer.buckets().items()}
            listed = await list_node(wire)
            in_buckets = {name: await list_bucket(wire, name) for name in buckets}
            for stream in self._random.sample(self.streams(), len(self.streams())):
                sent = time.time()
                try:
                    found = await read_stream(wire, stream, self._random)
                except Exception:
                    stream.touching()  # the node died under the read, which may have restarted the window before
                    raise
                stream.settle(found, sent, time.time())
        compare_listing(listed, self.streams())
        for writer in self.writers:
            for name in writer.buckets():
                _compare_bucket(name, buckets[name], in_buckets[name], self.streams())

    async def _guarded(self, writer: Writer, port: int) -> None:
        async with Wire(port) as wire:
            try:
                await writer.run(wire)
            except (Lost, Refused, Stopped):
                return


def _compare_bucket(
    name: str, presence: Presence, listed: Mapping[str, object] | None, streams: Sequence[Stream]
) -> None:
    if presence is Presence.PRESENT and listed is None:
        raise Broken(f"bucket {name} was acknowledged and is not there")
    if presence is Presence.ABSENT and listed is not None:
        raise Broken(f"bucket {name} was deleted and is there")
    living = {
        stream.path.rpartition("/")[2]
        for stream in streams
        if stream.path.startswith(f"/{name}/") and stream.presence is Presence.PRESENT
    }
    if set(listed or ()) != living:
        raise Broken(f"bucket {name} lists {sorted(listed or ())}, {sorted(living)} live there")
