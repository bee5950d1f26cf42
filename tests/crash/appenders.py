"""Writers and readers of streams that live as long as the run."""

import asyncio
import json

from typing_extensions import override

from tests.crash.load import Shared, Stopped
from tests.crash.model import Attempt, Broken, Outcome, Presence, Stream, place
from tests.crash.readback import entries_of
from tests.support.wire import Answer, Wire

_BATCH_MAX = 12
_POLL_MS = 150
_RETRY_S = 0.01
_FORWARD = 0.95  # share of new numbers; the rest are sent again


class Plain(Shared):
    """Appends one entry after the other, or JSON arrays of several, which are stored whole or not at all."""

    def __init__(self, name: str, seed: str, stream: Stream, lock: asyncio.Lock) -> None:
        super().__init__(name, seed, stream)
        self._lock = lock

    @override
    async def run(self, wire: Wire) -> None:
        await self.ensure(wire, self._lock)
        stream = self.stream
        while True:
            count = self.random.randint(1, _BATCH_MAX) if stream.json else 1
            attempt = stream.attempt(self.name, self.entries(stream, count))
            answer = await self.append(wire, stream, attempt)
            self.expect(answer, {204}, "append")
            stream.acknowledge(attempt, answer.next_offset)


class Tailer(Shared):
    """Follows a stream by long-polls from where it was. What it was shown once must stay, and its offset be valid."""

    def __init__(self, name: str, seed: str, stream: Stream) -> None:
        super().__init__(name, seed, stream)
        self._offset = "-1"
        self._start = 0

    @override
    async def run(self, wire: Wire) -> None:
        stream = self.stream
        while True:
            path = f"{stream.path}?offset={self._offset}&live=long-poll&timeout_ms={_POLL_MS}"
            answer = await wire.request("GET", path)
            if answer.status == 404 and stream.presence is not Presence.PRESENT:
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.status == 503:
                raise Stopped
            self.expect(answer, {200, 204}, f"long-poll from {self._offset}")
            entries = entries_of(stream, answer.body) if answer.status == 200 else []
            stream.saw(self._start, entries)
            self._offset, self._start = answer.next_offset, self._start + len(entries)
            if place(self._offset).seq != self._start:
                raise Broken(f"{stream.path}: {self._start} entries were shown, the next offset is {self._offset}")


class Sequenced(Shared):
    """One writer with `Stream-Seq`: after a crash the same number again, which is 409 exactly when it was stored."""

    def __init__(self, name: str, seed: str, stream: Stream) -> None:
        super().__init__(name, seed, stream)
        self._last: Attempt | None = None
        self._stream_seq = 0

    @override
    async def run(self, wire: Wire) -> None:
        stream = self.stream
        if stream.presence is not Presence.PRESENT:
            await self.create(wire, stream)
        while True:
            if self._last is None or (self._last.outcome is Outcome.STORED and self.random.random() < _FORWARD):
                self._last, self._stream_seq = stream.attempt(self.name, self.entries(stream)), self._stream_seq + 1
            await self._send(wire, self._last)

    async def _send(self, wire: Wire, attempt: Attempt) -> None:
        stored = attempt.outcome is Outcome.STORED
        answer = await self.append(wire, self.stream, attempt, {"stream-seq": f"{self._stream_seq:08d}"})
        self.expect(answer, {409} if stored else {204}, f"Stream-Seq {self._stream_seq}, stored before: {stored}")
        if not stored:
            self.stream.acknowledge(attempt, answer.next_offset)


class Producer(Shared):
    """An idempotent producer: retries after a crash; now and then a duplicate, a gap, or a stale epoch."""

    def __init__(self, name: str, seed: str, stream: Stream, lock: asyncio.Lock) -> None:
        super().__init__(name, seed, stream)
        self._lock = lock
        self._epoch = 0
        self._seq = -1  # the newest one that is stored
        self._pending: tuple[Attempt, int, int] | None = None

    @override
    async def run(self, wire: Wire) -> None:
        await self.ensure(wire, self._lock)
        await self._retry(wire)
        while True:
            match self.random.random():
                case chance if chance < 0.03 and self._seq >= 0:
                    await self._duplicate(wire)
                case chance if chance < 0.06:
                    await self._gap(wire)
                case chance if chance < 0.09 and self._epoch:
                    await self._stale(wire)
                case chance if chance < 0.12 and self._seq >= 0:
                    await self._send(wire, self._fresh(), self._epoch + 1, 0)
                case _:
                    await self._send(wire, self._fresh(), self._epoch, self._seq + 1)

    async def _retry(self, wire: Wire) -> None:
        """The request that the crash left open: by now the read-back has said whether it was stored."""
        if self._pending is None:
            return
        attempt, epoch, seq = self._pending
        if attempt.outcome is Outcome.STORED:
            self._epoch, self._seq, self._pending = epoch, seq, None
            answer = await self._exchange(wire, attempt, epoch, seq)
            self.expect(answer, {204}, f"retry of {epoch}/{seq}, which is stored")
            self._says(answer, epoch, seq)
        else:
            await self._send(wire, attempt, epoch, seq)

    async def _send(self, wire: Wire, attempt: Attempt, epoch: int, seq: int) -> None:
        self._pending = (attempt, epoch, seq)
        answer = await self._exchange(wire, attempt, epoch, seq)
        self.expect(answer, {200}, f"append {epoch}/{seq}")
        self._says(answer, epoch, seq)
        self.stream.acknowledge(attempt, answer.next_offset)
        self._epoch, self._seq, self._pending = epoch, seq, None

    async def _duplicate(self, wire: Wire) -> None:
        """Other bytes under a number that is stored: they must never show."""
        answer = await self._exchange(wire, self._hopeless(), self._epoch, self.random.randint(0, self._seq))
        self.expect(answer, {204}, "duplicate")
        self._says(answer, self._epoch, self._seq)

    async def _gap(self, wire: Wire) -> None:
        answer = await self._exchange(wire, self._hopeless(), self._epoch, self._seq + 2)
        self.expect(answer, {409}, "gap")
        if answer.headers["producer-expected-seq"] != str(self._seq + 1):
            raise Broken(f"{self.name}: expected {self._seq + 1}, the node expects {answer.headers}")

    async def _stale(self, wire: Wire) -> None:
        answer = await self._exchange(wire, self._hopeless(), self._epoch - 1, self._seq + 1)
        self.expect(answer, {403}, "stale epoch")

    async def _exchange(self, wire: Wire, attempt: Attempt, epoch: int, seq: int) -> Answer:
        said = {"producer-id": self.name, "producer-epoch": str(epoch), "producer-seq": str(seq)}
        return await self.append(wire, self.stream, attempt, said)

    def _fresh(self) -> Attempt:
        return self.stream.attempt(self.name, self.entries(self.stream))

    def _hopeless(self) -> Attempt:
        return self.stream.hopeless(self.name, self.entries(self.stream))

    def _says(self, answer: Answer, epoch: int, seq: int) -> None:
        said = (answer.headers["producer-epoch"], answer.headers["producer-seq"])
        if said != (str(epoch), str(seq)):
            raise Broken(
                f"{self.name}: {epoch}/{seq} is the newest, the node says {said}: {json.dumps(answer.headers)}"
            )
