"""Writers that own one name each, and go on over the loss of the disk with what a recovery says is there."""

import asyncio
import json
from collections.abc import Sequence
from random import Random

from tests.crash.load import Stopped
from tests.crash.model import Broken, Stream, place
from tests.crash.readback import entries_of
from tests.crash.tiers.chronicle import Name
from tests.support.wire import Answer, Lost, Refused, Wire

_FLUSH_SHARE = 0.04
_READ_SHARE = 0.05
_DELETE_SHARE = 0.04
_CLOSE_SHARE = 0.02
_UNSURE = {"append_timeout", "outcome_unknown"}


class Scribe:
    """Creates, appends, flushes, reads; some delete and create again, close, or number what they send."""

    def __init__(
        self,
        name: str,
        seed: str,
        *,
        json: bool = False,
        deletes: bool = False,
        closes: bool = False,
        sure: bool = False,
    ) -> None:
        self.name = Name(Stream(f"/v1/stream/{name}", json=json))
        self._who = name
        self._random = Random(f"{seed}/{name}")
        self._deletes = deletes
        self._closes = closes
        self._sure = sure
        self._number = 0

    async def run(self, wire: Wire) -> None:
        """Until the node is gone. Whatever is open then is settled by the next recovery."""
        while True:
            await self._step(wire)

    async def _step(self, wire: Wire) -> None:
        name, chance = self.name, self._random.random()
        if name.life is None:
            answer = await self._ask(wire, "PUT", "", {201})
            name.born(answer.next_offset)
        elif chance < _FLUSH_SHARE:
            answer = await self._ask(wire, "POST", "/_flush", {200, 202})
            if answer.status == 200:
                name.flushed()
        elif chance < _FLUSH_SHARE + _READ_SHARE:
            await self._read(wire)
        elif name.life.closed or (self._deletes and chance > 1 - _DELETE_SHARE):
            await self._ask(wire, "DELETE", "", {204})
            name.died()
        else:
            await self._append(wire)

    async def _append(self, wire: Wire) -> None:
        name, stream = self.name, self.name.stream
        assert name.life is not None
        count = self._random.randint(1, 6) if stream.json and not self._sure else 1
        entries = self._entries(count)
        name.sent.update(dict.fromkeys(entries))
        headers = {}
        if self._sure:
            at = sum(entry.startswith(f"{self._who}:") for entry in name.life.entries)
            headers = {"producer-id": self._who, "producer-epoch": "0", "producer-seq": str(at)}
            if at and self._random.random() < 0.1:
                again = headers | {"producer-seq": str(at - 1)}
                await self._ask(wire, "POST", "", {204}, again, self._body(self._entries(1)))
                return
        closing = self._closes and self._random.random() < _CLOSE_SHARE
        if closing:
            headers["stream-closed"] = "true"
        answer = await self._ask(wire, "POST", "", {200, 204}, headers, self._body(entries))
        name.stored(entries, answer.next_offset)
        name.life.closed = closing

    async def _read(self, wire: Wire) -> None:
        """A page from somewhere: the tokens that it gives out count as given out."""
        name = self.name
        assert name.life is not None
        have = len(name.life.entries)
        token = self._random.choice(["-1", *list(name.issued)[-40:]])
        answer = await wire.request(
            "GET", f"{name.stream.path}?offset={token}&max_bytes={self._random.choice((300, 3000))}"
        )
        if answer.status == 410 and token != "-1":
            return
        if answer.status != 200:
            raise Broken(f"{name.stream.path}: GET at {token}: {answer.status} {answer.body[:200]!r}")
        page = entries_of(name.stream, answer.body)
        end = place(answer.next_offset).seq
        if page != name.life.entries[end - len(page) : end] or end > have:
            raise Broken(f"{name.stream.path}: a page at {token} is not what was stored")
        if page:
            name.issue(answer.next_offset, page[-1])

    def _entries(self, count: int) -> list[str]:
        self._number += 1
        pad = "x" * self._random.choice((0, 10, 100, 400))
        ends = "" if self.name.stream.json else "\n"
        return [f"{self._who}:{self._number}:{at}:{pad}{ends}" for at in range(count)]

    def _body(self, entries: Sequence[str]) -> bytes:
        return json.dumps(entries).encode() if self.name.stream.json else "".join(entries).encode()

    async def _ask(
        self,
        wire: Wire,
        method: str,
        sub: str,
        statuses: set[int],
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        said = {"content-type": self.name.stream.content_type, **(headers or {})}
        if sub:
            said = {}
        answer = await wire.request(method, self.name.stream.path + sub, said, body)
        if answer.status in statuses:
            return answer
        if answer.status in {429, 503} or json.loads(answer.body)["error"]["code"] in _UNSURE:
            raise Stopped
        raise Broken(f"{method} {self.name.stream.path}{sub}: {answer.status} {answer.body[:300]!r}")


class Scribes:
    """All of one bucket."""

    def __init__(self, seed: str) -> None:
        self._random = Random(f"{seed}/scribes")
        self.all = [
            *(Scribe(f"plain-{at}", seed, json=at % 2 == 0) for at in range(3)),
            *(Scribe(f"sure-{at}", seed, json=at % 2 == 0, sure=True) for at in range(2)),
            *(Scribe(f"churn-{at}", seed, json=at % 2 == 0, deletes=True) for at in range(3)),
            *(Scribe(f"close-{at}", seed, json=at % 2 == 0, closes=True) for at in range(2)),
        ]

    async def run(self, port: int) -> None:
        await asyncio.gather(*(self._guarded(scribe, port) for scribe in self.all))

    async def recover(self, port: int) -> None:
        async with Wire(port) as wire:
            for scribe in self.all:
                await scribe.name.recover(wire, self._random)

    async def keeps(self, port: int) -> None:
        async with Wire(port) as wire:
            for scribe in self.all:
                await scribe.name.keeps(wire, self._random)

    async def _guarded(self, scribe: Scribe, port: int) -> None:
        async with Wire(port) as wire:
            try:
                await scribe.run(wire)
            except (Lost, Refused, Stopped):
                return
