"""What clients of names were ever told, over all lives of a node and over the loss of its disk.

Owns     per name: every offset that was ever given out with the entry before it, every entry that was ever sent, and
         how far the bucket was said to hold it.
Keeps    an offset stands for one place in one history, for ever: whoever shows another entry there has used it twice.
         What a flush was answered with `published` is there after a recovery; what came later may be there or not,
         in its order. An offset that did not survive answers 410 with an offset that did.
"""

from dataclasses import dataclass, field
from random import Random

from tests.crash.model import Broken, Place, Stream, place
from tests.crash.readback import read_stream
from tests.support.wire import Answer, Wire

_ASKED_MAX = 25  # offsets of a name that are asked for after a recovery; the newest ones always


@dataclass(slots=True)
class Life:
    """What is known to be stored of the present life of a name."""

    entries: list[str] = field(default_factory=list)
    epoch: int = 0
    closed: bool = False


@dataclass(slots=True)
class Name:
    """One path and everything that was ever said about it. One writer owns it, so its history has one order."""

    stream: Stream
    issued: dict[str, str] = field(default_factory=dict)
    sent: dict[str, None] = field(default_factory=dict)
    life: Life | None = None
    floor: list[str] | None = None  # entries that a flush has confirmed, of the present life
    floor_closed: bool = False

    def issue(self, token: str, before: str) -> None:
        """A token was given out as the end of an entry."""
        known = self.issued.setdefault(token, before)
        if known != before:
            raise Broken(f"{self.stream.path}: {token} was the end of {known!r}, and now is that of {before!r}")

    def born(self, token: str) -> None:
        self.life, self.floor, self.floor_closed = Life(epoch=place(token).epoch), None, False

    def stored(self, entries: list[str], token: str) -> None:
        """An append was acknowledged."""
        assert self.life is not None
        self.life.entries += entries
        self.life.epoch, seq = place(token)
        if seq != len(self.life.entries):
            raise Broken(f"{self.stream.path}: {len(self.life.entries)} entries are stored, the node says {seq}")
        self.issue(token, entries[-1])

    def flushed(self) -> None:
        """The bucket was said to hold everything up to now."""
        assert self.life is not None
        if self.life.entries:
            self.floor, self.floor_closed = list(self.life.entries), self.life.closed

    def died(self) -> None:
        self.life, self.floor, self.floor_closed = None, None, False

    async def recover(self, wire: Wire, random: Random) -> None:
        """Read the name from a node that began from the bucket, judge it, and take what is there for what is."""
        found = await read_stream(wire, self.stream, random)
        if found is None:
            self._say(self.floor is None, f"{len(self.floor or ())} entries were published, and there is no stream")
            self.life = None
            return
        entries = found.entries
        self._say(len(entries) == found.tail, f"the tail says {found.tail}, {len(entries)} were read")
        self._say(len(set(entries)) == len(entries), "an entry is there twice")
        self._say(all(entry in self.sent for entry in entries), "there is an entry that nobody sent")
        floor = self.floor or []
        self._say(entries[: len(floor)] == floor, f"{len(floor)} entries were published, {len(entries)} are there")
        self._say(found.closed or not self.floor_closed, "it was closed in the bucket, and is open")
        for token in self._asked(random):
            self._judge_offset(token, await wire.request("GET", f"{self.stream.path}?offset={token}"), entries)
        self.life = Life(entries, found.epoch, found.closed)

    async def keeps(self, wire: Wire, random: Random) -> None:
        """A node that has lost the bucket still shows all that it was ever acknowledged to hold."""
        if self.life is None:
            return
        found = await read_stream(wire, self.stream, random)
        self._say(found is not None, "it was acknowledged, and is not there any more")
        kept = [] if found is None else found.entries
        self._say(kept[: len(self.life.entries)] == self.life.entries, "its tail is not what was acknowledged")

    def _asked(self, random: Random) -> list[str]:
        tokens = list(self.issued)
        return random.sample(tokens[:-5], min(_ASKED_MAX, len(tokens[:-5]))) + tokens[-5:]

    def _judge_offset(self, token: str, answer: Answer, entries: list[str]) -> None:
        seq = place(token).seq
        stands = 0 < seq <= len(entries) and entries[seq - 1] == self.issued[token]
        if answer.status == 200:
            self._say(stands, f"{token} was the end of {self.issued[token]!r}, which is not there")
            return
        self._say(answer.status == 410, f"{token}, which was given out once, is answered {answer.status}")
        floor = self.floor or []
        published = 0 < seq <= len(floor) and floor[seq - 1] == self.issued[token]
        self._say(not published, f"{token} was published, and is answered 410")
        fence: Place = place(answer.next_offset)
        self._say(fence.seq <= len(entries), f"the fence {fence} lies beyond the {len(entries)} entries that are there")

    def _say(self, holds: bool, problem: str) -> None:  # noqa: FBT001 - reads as an assertion
        if not holds:
            raise Broken(f"{self.stream.path}: {problem}")
