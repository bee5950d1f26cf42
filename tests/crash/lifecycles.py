"""Writers that end streams: by closing, by deleting, with their bucket, or by letting their time run out."""

import time
from collections.abc import Mapping, Sequence

from typing_extensions import override

from tests.crash.load import Stopped, Unsure, Writer
from tests.crash.model import Broken, Presence, Stream, place
from tests.support.wire import Answer, Refused, Wire

_CLOSED_MAX = 12
_BUCKET_STREAMS = 9  # more than a page of the listing that the read-back asks for
_ABANDONED_MAX = 6
_TTL_S = 2


class Closer(Writer):
    """Closes stream after stream, in every way there is; a closed one is asked again and again."""

    def __init__(self, name: str, seed: str, *, json: bool) -> None:
        super().__init__(name, seed)
        self._json = json
        self._streams: list[Stream] = []

    @override
    def streams(self) -> Sequence[Stream]:
        return self._streams

    @override
    async def run(self, wire: Wire) -> None:
        while True:
            if not self._streams or (self._streams[-1].final is not None and len(self._streams) < _CLOSED_MAX):
                self._streams.append(Stream(f"/v1/stream/{self.name}/{len(self._streams)}", self._json))
            stream = self._streams[-1]
            if stream.final is not None:
                await self._probe(wire, self.random.choice(self._streams))
            elif stream.presence is not Presence.PRESENT:
                await self._open(wire, stream)
            else:
                await self._close(wire, stream)

    async def _open(self, wire: Wire, stream: Stream) -> None:
        match self.random.randrange(4):
            case 0:
                await self.create(wire, stream, entries=self.entries(stream), closes=True)
            case 1:
                await self.create(wire, stream, closes=True)
            case 2:
                await self.create(wire, stream, entries=self.entries(stream))
            case _:
                await self.create(wire, stream)

    async def _close(self, wire: Wire, stream: Stream) -> None:
        closes = self.random.random() < 0.5
        empty = closes and self.random.random() < 0.4
        attempt = stream.attempt(self.name, [] if empty else self.entries(stream), closes=closes)
        triple = {"producer-id": self.name, "producer-epoch": "0", "producer-seq": "0"} if closes else {}
        with_producer = closes and self.random.random() < 0.5
        answer = await self.append(wire, stream, attempt, triple if with_producer else {})
        self.expect(answer, {200, 204}, "append that may close")
        stream.acknowledge(attempt, answer.next_offset)
        if with_producer:
            again = await wire.request("POST", stream.path, triple | {"stream-closed": "true"})
            self._is_final(stream, again, 204)

    async def _probe(self, wire: Wire, stream: Stream) -> None:
        refused = stream.hopeless(self.name, self.entries(stream))
        self._is_final(stream, await self.append(wire, stream, refused), 409)
        self._is_final(stream, await wire.request("POST", stream.path, {"stream-closed": "true"}), 204)
        self._is_final(stream, await wire.request("HEAD", stream.path), 200)

    def _is_final(self, stream: Stream, answer: Answer, status: int) -> None:
        if answer.status == 503:
            raise Stopped
        self.expect(answer, {status}, f"{stream.path}, which is closed")
        if answer.headers.get("stream-closed") != "true" or place(answer.next_offset).seq != stream.final:
            raise Broken(f"{stream.path} is closed at {stream.final}, the node says {answer.headers}")


class Churner(Writer):
    """Creates and deletes one name over and over: a deleted life is never seen again, nor its offsets taken."""

    def __init__(self, name: str, seed: str, *, json: bool) -> None:
        super().__init__(name, seed)
        self._stream = Stream(f"/v1/stream/{name}", json)
        self._old_offset: str | None = None

    @override
    def streams(self) -> Sequence[Stream]:
        return [self._stream]

    @override
    async def run(self, wire: Wire) -> None:
        stream = self._stream
        while True:
            if stream.presence is not Presence.PRESENT:
                await self._is_absent(wire)
                entries = self.entries(stream, 3 if stream.json else 1) if self.random.random() < 0.5 else []
                await self.create(wire, stream, entries=entries)
                await self._old_life_is_over(wire)
            for _ in range(self.random.randrange(5)):
                attempt = stream.attempt(self.name, self.entries(stream))
                answer = await self.append(wire, stream, attempt)
                self.expect(answer, {204}, "append")
                stream.acknowledge(attempt, answer.next_offset)
                self._old_offset = answer.next_offset
            await self.delete(wire, stream)

    async def _is_absent(self, wire: Wire) -> None:
        answer = await wire.request("HEAD", self._stream.path)
        self.expect(answer, {404}, "HEAD of a deleted stream")

    async def _old_life_is_over(self, wire: Wire) -> None:
        if self._old_offset is None or place(self._old_offset).epoch == self._stream.epoch:
            return
        answer = await wire.request("GET", f"{self._stream.path}?offset={self._old_offset}")
        self.expect(answer, {410}, f"read at {self._old_offset} of an earlier life")


class BucketKeeper(Writer):
    """Creates a bucket, fills it, empties it and deletes it, over and over."""

    def __init__(self, name: str, seed: str) -> None:
        super().__init__(name, seed)
        self._bucket = Presence.ABSENT
        self._streams = [Stream(f"/{name}/s{at}", json=at % 2 == 0) for at in range(_BUCKET_STREAMS)]

    @override
    def streams(self) -> Sequence[Stream]:
        return self._streams

    @override
    def buckets(self) -> Mapping[str, Presence]:
        return {self.name: self._bucket}

    @override
    async def run(self, wire: Wire) -> None:
        while True:
            await self._ensure(wire)
            for stream in self.random.sample(self._streams, self.random.randrange(1, _BUCKET_STREAMS)):
                if stream.presence is not Presence.PRESENT:
                    await self.create(wire, stream, entries=self.entries(stream))
            answer = await wire.request("DELETE", f"/{self.name}")
            self.expect(answer, {409, 503}, "DELETE of a bucket that is not empty")
            for stream in self._streams:
                if stream.presence is Presence.PRESENT and self.random.random() < 0.7:
                    await self.delete(wire, stream)
            if all(stream.presence is Presence.ABSENT for stream in self._streams):
                await self._move(wire, "DELETE", Presence.DELETING, Presence.ABSENT)

    async def _ensure(self, wire: Wire) -> None:
        if self._bucket is Presence.PRESENT:
            return
        if self._bucket is not Presence.ABSENT:  # a crash left it open: the node knows
            answer = await wire.request("GET", f"/{self.name}")
            self._bucket = Presence.PRESENT if answer.status == 200 else Presence.ABSENT
        if self._bucket is Presence.ABSENT:
            await self._move(wire, "PUT", Presence.CREATING, Presence.PRESENT)

    async def _move(self, wire: Wire, method: str, during: Presence, after: Presence) -> None:
        before, self._bucket = self._bucket, during
        try:
            answer = await self.exchange(wire, method, f"/{self.name}", {}, b"", None)
        except Unsure:
            raise
        except (Refused, Stopped):
            self._bucket = before
            raise
        self.expect(answer, {201, 204}, f"{method} /{self.name}")
        self._bucket = after


class Toucher(Writer):
    """Keeps one stream with a sliding window alive, and abandons others, which must be over in time."""

    def __init__(self, name: str, seed: str) -> None:
        super().__init__(name, seed)
        self._kept = Stream(f"/v1/stream/{name}/kept", ttl_s=_TTL_S)
        self._abandoned: list[Stream] = []

    @override
    def streams(self) -> Sequence[Stream]:
        return [self._kept, *self._abandoned]

    @override
    async def run(self, wire: Wire) -> None:
        while True:
            if self.random.random() < 0.2:
                await self._abandon(wire)
            await self._write(wire, self._kept)
            for stream in self._abandoned:
                if stream.presence is Presence.PRESENT and time.time() > stream.dead_from:
                    await self._is_over(wire, stream)

    async def _write(self, wire: Wire, stream: Stream) -> None:
        if stream.presence is not Presence.PRESENT:
            await self.create(wire, stream)
        attempt = stream.attempt(self.name, self.entries(stream))
        answer = await self.append(wire, stream, attempt)
        self.expect(answer, {204, 404}, "append to a stream with a window")
        if answer.status == 204:
            stream.acknowledge(attempt, answer.next_offset)

    async def _abandon(self, wire: Wire) -> None:
        ended = [stream for stream in self._abandoned if stream.presence is Presence.ABSENT]
        if len(self._abandoned) < _ABANDONED_MAX:
            ended.append(Stream(f"/v1/stream/{self.name}/left-{len(self._abandoned)}", ttl_s=1))
            self._abandoned.append(ended[-1])
        if ended:
            await self._write(wire, ended[0])

    async def _is_over(self, wire: Wire, stream: Stream) -> None:
        answer = await wire.request("HEAD", stream.path)
        self.expect(answer, {404}, f"{stream.path}, abandoned until {stream.dead_from}")
        stream.gone()
