"""The protocol in plain Python: dictionaries and lists, no I/O, no time of its own. It says what a node must answer.

Where the node may answer in more than one way, the model says so: a page may hold fewer entries than fit, and a sliding
window may end late after a restart (never early). For the second it is asked once for each possibility.
"""

import json
from dataclasses import dataclass, field
from typing import NamedTuple

SECOND = 1_000_000
Times = tuple[int | None, int | None]  # a window in seconds, a moment
ANY = "*"  # a header that must be there with some value
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
STARTS = ("-1", "0000000000000000_0000000000000000")
DEFAULT_TYPE = "application/octet-stream"


class Name(NamedTuple):
    bucket: str
    stream: str


class Span(NamedTuple):
    """The facts that an entity tag stands for."""

    life: int
    start: int
    end: int
    closed: bool
    form: str


@dataclass
class Stream:
    """One life of a name. `epoch` is the one that it writes in; a fork has those of what it shares before it."""

    life: int
    epoch: int
    content_type: str
    ttl_s: int | None
    expires_us: int | None
    created_us: int
    written_us: int
    alive_until: int = 0  # a sliding window: not over before this moment,
    dead_from: int = 0  # and surely over after this one
    maybe_collected: bool = False  # a sweep came by between the two
    entries: list[bytes] = field(default_factory=list)
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    stream_seq: bytes | None = None
    appends: list[int] = field(default_factory=list)  # where each of them ends
    epoch_from: int = 0
    shared_epochs: tuple[tuple[int, int], ...] = ()
    origin: "Fork | None" = None
    source: "Stream | None" = None
    forked_at: int = 0  # the offset that it was forked at
    forks: list[Name] = field(default_factory=list)
    hidden: bool = False  # deleted or over, and kept for its forks

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        return (*self.shared_epochs, (self.epoch, self.epoch_from))

    @property
    def is_json(self) -> bool:
        return media(self.content_type) == "application/json"

    @property
    def tail(self) -> int:
        return len(self.entries)

    def token(self, seq: int) -> str:
        """It carries the epoch of the entry before it."""
        return token(next((epoch for epoch, first in reversed(self.epochs) if seq > first), self.epochs[0][0]), seq)

    def ends_us(self) -> int | None:
        """The moment up to which it is surely there; None when it has no end."""
        if self.hidden:
            return None
        return self.alive_until if self.ttl_s is not None else self.expires_us

    def touch(self, now_us: int, *, surely: bool = True) -> None:
        if self.ttl_s is not None and not self.hidden:
            slack = max(SECOND, self.ttl_s * SECOND // 10)
            if surely:
                self.alive_until = max(self.alive_until, now_us + self.ttl_s * SECOND)
            self.dead_from = max(self.dead_from, now_us + self.ttl_s * SECOND + slack)


class Fork(NamedTuple):
    """The headers of a fork. `offset` None: the source's end."""

    source: Name
    offset: str | None = None
    sub: int = 0


@dataclass
class Bucket:
    created_us: int
    alive: bool = True


@dataclass
class Expected:
    """What must come back. Of headers only those that the protocol speaks of."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = b""
    code: str | None = None
    tag: Span | None = None
    page: "Page | None" = None


@dataclass
class Page:
    """A page from `start`: its end is the node's choice among these whole entries."""

    stream: Stream
    start: int
    bytes_max: int
    raw: bool


@dataclass
class Append:
    """The parts of a POST, or of the content of a PUT."""

    body: bytes = b""
    content_type: str | None = None
    close: bool = False
    producer: tuple[str, int, int] | None = None
    stream_seq: str | None = None
    hint_us: int | None = None


class Left(NamedTuple):
    """Where a fork leaves its source: the offset, the first entry that is its own, and bytes that it begins with."""

    fork: Fork
    source: Stream
    at: int
    seq: int
    copied: bytes


class World:
    """Everything the node should know."""

    def __init__(self, *, ahead_us_max: int) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.streams: dict[Name, Stream] = {}
        self.buried: dict[Name, int] = {}
        self.lives = 0
        self.now_us = 0
        self._ahead_us_max = ahead_us_max

    # --- whether a stream is there ----------------------------------------------------------------------------------

    def possible(self, name: Name) -> list[bool]:
        """Whether the name's stream is alive: one answer, or both."""
        stream = self.streams.get(name)
        if stream is None or stream.hidden:
            return [stream is not None]
        if stream.expires_us is not None:
            alive = [self.now_us < stream.expires_us]
        elif stream.ttl_s is None or self.now_us < stream.alive_until:
            alive = [True]
        else:
            alive = [False] if self.now_us >= stream.dead_from else [True, False]
        return [True, False] if stream.maybe_collected and alive == [True] else alive

    def found(self, name: Name, *, alive: bool) -> Stream | None:
        """The stream, as the node finds it; one that is over is buried by whoever looks, or hidden for its forks."""
        stream = self.streams.get(name)
        if stream is not None and not alive:
            self.bury(name)
            return self.streams.get(name)
        if stream is not None:
            stream.maybe_collected = False
            stream.alive_until = max(stream.alive_until, self.now_us + 1)  # the node has seen that it is not over
        return stream

    def bury(self, name: Name) -> None:
        """The end of a stream, and of what was kept for it alone; or its disappearance, while it has forks."""
        stream = self.streams[name]
        if stream.forks:
            stream.hidden, stream.maybe_collected = True, False
            return
        self.buried[name] = self.streams.pop(name).epoch
        if stream.source is not None and stream.origin is not None:
            stream.source.forks.remove(name)
            if stream.source.hidden and not stream.source.forks:
                self.bury(stream.origin.source)

    def unsure(self) -> list[Name]:
        """Forks that may be gone by now, so that nobody knows whether their sources are kept."""
        forks = [name for name, stream in self.streams.items() if stream.source is not None]
        return [name for name in forks if self.possible(name) != [True]]

    def swept(self, *, surely: bool = True) -> None:
        """The node has looked for streams that are over, or may have."""
        for name in list(self.streams):
            alive = self.possible(name) if name in self.streams else [True]
            if alive == [False] and surely:
                self.bury(name)
            elif False in alive:
                self.streams[name].maybe_collected = True

    # --- writes -----------------------------------------------------------------------------------------------------

    def put(self, name: Name, request: Append, *, alive: bool, ttl_s: int | None, expires_us: int | None,
            implicit: bool, path: str, fork: Fork | None = None) -> Expected:  # fmt: skip
        if fork is not None and fork.offset not in (None, *STARTS) and decoded(str(fork.offset)) is None:
            return refusal(400, "bad_request")
        stream = self.found(name, alive=alive)
        if stream is not None:
            return self._there(stream, request, (ttl_s, expires_us), fork)
        bucket = self.buckets.get(name.bucket)
        if not implicit and (bucket is None or not bucket.alive):
            return refusal(404, "not_found")
        left = None if fork is None else self._left(fork, request.content_type)
        return left if isinstance(left, Expected) else self._new(name, request, (ttl_s, expires_us), path, left)

    def _there(self, stream: Stream, request: Append, times: Times, fork: Fork | None) -> Expected:
        """A repetition of the request that made it, or another one."""
        if stream.hidden:
            return refusal(409, "conflict")
        content_type = request.content_type or (DEFAULT_TYPE if fork is None else stream.content_type)
        if fork is not None and times == (None, None) and stream.source is not None:
            times = lifetime(stream.source)  # what was inherited need not be said
        same = (media(content_type), times, request.close, True)
        if same != (media(stream.content_type), lifetime(stream), stream.closed, self._forked_alike(stream, fork)):
            stream.touch(self.now_us, surely=False)
            return refusal(409, "conflict")
        stream.touch(self.now_us)
        headers = {"content-type": stream.content_type, "stream-next-offset": stream.token(stream.tail)}
        return Expected(200, headers | closed_header(shown=stream.closed))

    def _forked_alike(self, stream: Stream, fork: Fork | None) -> bool:
        if stream.origin is None or fork is None:
            return stream.origin is None and fork is None
        at = fork.offset
        said = stream.forked_at if at is None else 0 if at in STARTS else (decoded(at) or (0, -1))[1]
        return (stream.origin.source, stream.origin.sub, stream.forked_at) == (fork.source, fork.sub, said)

    def _left(self, fork: Fork, content_type: str | None) -> "Left | Expected":
        """Where a fork leaves its source, or why it does not. The machine has made sure of what the source is."""
        source = self.streams.get(fork.source)
        if source is None:
            return refusal(404, "not_found")
        if source.hidden:
            return refusal(409, "conflict")
        if content_type is not None and media(content_type) != media(source.content_type):
            return refusal(409, "content_type_mismatch")
        at = source.tail if fork.offset is None else self.resolve(source, fork.offset)
        if isinstance(at, Expected):
            return at
        if not fork.sub:
            return Left(fork, source, at, at, b"")
        end = next((end for end in source.appends if end > at), at)
        most = end - at if source.is_json else len(source.entries[at]) if at < source.tail else 0
        if fork.sub > most:
            return refusal(400, "bad_request")
        if source.is_json:
            return Left(fork, source, at, at + fork.sub, b"")
        return Left(fork, source, at, at, source.entries[at][: fork.sub])

    def _begin(self, stream: Stream, name: Name, left: "Left") -> None:
        """What a fork has from its source."""
        source, seq = left.source, left.seq
        stream.origin, stream.source, stream.forked_at = left.fork, source, left.at
        source.forks.append(name)
        stream.entries = source.entries[:seq]
        stream.appends = [end for end in source.appends if end < seq] + ([seq] if seq else [])
        stream.written_us = max(self.now_us, source.written_us)
        shared = tuple(each for each in source.epochs if each[1] < seq)
        if not shared:
            stream.epoch = max(stream.epoch, source.epochs[0][0])
        elif shared[-1][0] >= stream.epoch:
            stream.shared_epochs, (stream.epoch, stream.epoch_from) = shared[:-1], shared[-1]
        else:
            stream.shared_epochs, stream.epoch_from = shared, seq
        if left.copied:
            stream.entries.append(left.copied)
            stream.appends.append(seq + 1)

    def _new(self, name: Name, request: Append, times: Times, path: str, left: "Left | None") -> Expected:
        content_type = request.content_type or (DEFAULT_TYPE if left is None else left.source.content_type)
        entries = entries_of(request.body, is_json=media(content_type) == "application/json")
        if entries is None:
            return refusal(400, "bad_request")
        if request.producer is not None and request.producer[2] != 0:
            return gap(0, request.producer[2])
        ttl_s, expires_us = lifetime(left.source) if left is not None and times == (None, None) else times
        bucket = self.buckets.get(name.bucket)
        if bucket is None or not bucket.alive:
            self.buckets[name.bucket] = Bucket(self.now_us)
        self.lives += 1
        epoch = self.buried[name] + 1 if name in self.buried else 0
        stream = Stream(self.lives, epoch, content_type, ttl_s, expires_us, self.now_us, self.now_us)
        stream.touch(self.now_us)
        self.streams[name] = stream
        if left is not None:
            self._begin(stream, name, left)
        if entries or request.close or request.producer is not None:
            self._stored(stream, request, entries)
        headers = {"content-type": content_type, "stream-next-offset": stream.token(stream.tail), "location": path}
        return Expected(201, headers | closed_header(shown=stream.closed) | producer_headers(request.producer))

    def post(self, name: Name, request: Append, *, alive: bool) -> Expected:
        stream = self.found(name, alive=alive)
        if stream is None:
            return refusal(404, "not_found")
        if stream.hidden:
            return refusal(410, "gone")
        answer = self._refused(stream, request) or self._appended(stream, request)
        stream.touch(self.now_us, surely=False)
        return answer

    def _refused(self, stream: Stream, request: Append) -> Expected | None:
        """The first reason not to store it, or a duplicate, which is not stored either."""
        if (not request.body and not request.close) or (request.body and request.content_type is None):
            return refusal(400, "bad_request")
        if stream.closed:
            return self._on_closed(stream, request)
        if request.body and media(request.content_type or "") != media(stream.content_type):
            return refusal(409, "content_type_mismatch")
        if request.body and not entries_of(request.body, is_json=stream.is_json):
            return refusal(400, "bad_request")
        if request.producer is not None:
            answer = self._judged(stream, request.producer)
            if answer is not None:
                return answer
        if None not in (request.stream_seq, stream.stream_seq) and sortable(request.stream_seq) <= stream.stream_seq:  # type: ignore[operator]
            return refusal(409, "sequence_regressed")
        return None

    def _on_closed(self, stream: Stream, request: Append) -> Expected:
        tail = {"stream-next-offset": stream.token(stream.tail), "stream-closed": "true"}
        if request.producer is not None and request.producer == stream.closed_by:
            return Expected(204, tail | producer_headers((request.producer[0], *stream.producers[request.producer[0]])))
        if request.producer is None and request.close and not request.body:
            return Expected(204, tail)
        return refusal(409, "stream_closed", **tail)

    def _judged(self, stream: Stream, producer: tuple[str, int, int]) -> Expected | None:
        id_, epoch, seq = producer
        known = stream.producers.get(id_)
        if known is None:
            return None if seq == 0 else gap(0, seq)
        if epoch < known[0]:
            return refusal(403, "producer_fenced", **{"producer-epoch": str(known[0])})
        if epoch > known[0]:
            return None if seq == 0 else refusal(400, "bad_request")
        if seq <= known[1]:
            tail = {"stream-next-offset": stream.token(stream.tail)}
            return Expected(204, tail | producer_headers((id_, *known)))
        return None if seq == known[1] + 1 else gap(known[1] + 1, seq)

    def _appended(self, stream: Stream, request: Append) -> Expected:
        self._stored(stream, request, entries_of(request.body, is_json=stream.is_json) or [])
        stream.touch(self.now_us)
        headers = {"stream-next-offset": stream.token(stream.tail)} | closed_header(shown=stream.closed)
        status = 200 if request.producer is not None and request.body else 204
        return Expected(status, headers | producer_headers(request.producer))

    def _stored(self, stream: Stream, request: Append, entries: list[bytes]) -> None:
        stream.entries += entries
        if entries:
            stream.appends.append(len(stream.entries))
        hint = self.now_us if request.hint_us is None else min(request.hint_us, self.now_us + self._ahead_us_max)
        stream.written_us = max(stream.written_us, hint)
        if request.producer is not None:
            stream.producers[request.producer[0]] = request.producer[1:]
        if request.stream_seq is not None:
            stream.stream_seq = sortable(request.stream_seq)
        if request.close:
            stream.closed, stream.closed_by = True, request.producer

    def delete(self, name: Name, *, alive: bool) -> Expected:
        stream = self.found(name, alive=alive)
        if stream is None or stream.hidden:
            return refusal(404, "not_found") if stream is None else refusal(410, "gone")
        self.bury(name)
        return Expected(204)

    # --- reads ------------------------------------------------------------------------------------------------------

    def head(self, name: Name, *, alive: bool) -> Expected:
        stream = self.found(name, alive=alive)
        if stream is None:
            return refusal(404, "not_found")
        if stream.hidden:
            return refusal(410, "gone")
        headers = {
            "content-type": stream.content_type, "cache-control": "no-store", "etag": ANY,
            "stream-next-offset": stream.token(stream.tail), "stream-end-offset": stream.token(stream.tail),
        } | closed_header(shown=stream.closed)  # fmt: skip
        if stream.ttl_s is not None:
            headers["stream-ttl"] = str(stream.ttl_s)
        if stream.expires_us is not None:
            headers["stream-expires-at"] = ANY
        return Expected(200, headers, b"", tag=Span(stream.life, 0, stream.tail, stream.closed, ""))

    def resolve(self, stream: Stream, offset: str | None) -> int | Expected:
        """The sequence that an offset stands for on this stream, or the refusal."""
        if offset is None or offset in STARTS:
            return 0
        if offset == "now":
            return stream.tail
        position = decoded(str(offset))
        if position is None:
            return refusal(400, "bad_request")
        epoch, seq = position
        if seq == 0 and epoch <= stream.epoch:
            return 0
        if epoch < stream.epochs[0][0]:
            start = stream.token(0)
            return refusal(410, "gone", **{"stream-next-offset": start, "stream-earliest-offset": start})
        first = next((first for known, first in stream.epochs if known == epoch), None)
        fence = next((first for known, first in stream.epochs if known > epoch), None)
        if fence is not None and (first is None or seq > fence):
            return refusal(410, "gone", **{"stream-next-offset": stream.token(fence)})
        if first is None or seq > stream.tail or (seq <= first and epoch != stream.epochs[0][0]):
            return refusal(400, "bad_request", **{"stream-next-offset": stream.token(stream.tail)})
        return seq

    def get(self, name: Name, offset: str | None, *, alive: bool, bytes_max: int, form: str | None,
            live: bool = False) -> Expected:  # fmt: skip
        """A page, or what a long-poll without patience gets."""
        if offset not in (None, "now", *STARTS) and decoded(str(offset)) is None:
            return refusal(400, "bad_request")
        stream = self.found(name, alive=alive)
        if stream is None:
            return refusal(404, "not_found")
        if stream.hidden:
            return refusal(410, "gone")
        if form == "json" and not stream.is_json:
            return refusal(400, "bad_request")
        start = self.resolve(stream, offset)
        if isinstance(start, Expected):
            return start
        stream.touch(self.now_us)
        headers = {"stream-end-offset": stream.token(stream.tail)}
        if live:
            headers |= {} if stream.closed and start == stream.tail else {"stream-cursor": ANY}
            if start == stream.tail:
                headers |= {"stream-next-offset": stream.token(start), "stream-up-to-date": "true"}
                headers |= {"cache-control": "no-store"} | closed_header(shown=stream.closed)
                return Expected(204, headers)
        headers |= {"content-type": stream.content_type}
        page = Page(stream, start, bytes_max, raw=form == "raw")
        if offset == "now":
            return Expected(200, headers | {"cache-control": "no-store"}, None, page=page)
        span = Span(stream.life, start, -1, closed=False, form="raw" if form == "raw" and stream.is_json else "")
        headers |= {"cache-control": "public, max-age=60, stale-while-revalidate=300", "etag": ANY}
        return Expected(200, headers, None, tag=span, page=page)

    # --- buckets ----------------------------------------------------------------------------------------------------

    def put_bucket(self, name: str) -> Expected:
        bucket = self.buckets.get(name)
        if bucket is not None and bucket.alive:
            return refusal(409, "bucket_exists")
        self.buckets[name] = Bucket(self.now_us)
        return Expected(201, {"content-type": "application/json", "cache-control": "no-store"}, None)

    def get_bucket(self, name: str) -> Expected:
        bucket = self.buckets.get(name)
        if bucket is None or not bucket.alive:
            return refusal(404, "not_found")
        return Expected(200, {"content-type": "application/json", "cache-control": "no-store"}, None)

    def counts(self, name: str) -> range:
        """How many streams the bucket may be said to have: one that is over counts until somebody finds it so."""
        held = [stream for where, stream in self.streams.items() if where.bucket == name]
        unsure = sum(stream.maybe_collected and not stream.forks for stream in held)
        return range(len(held) - unsure, len(held) + 1)

    def delete_bucket(self, name: str, *, emptied: bool) -> Expected:
        """With streams in it, the node first looks which of them are over; `emptied` says whether all of them were."""
        bucket = self.buckets.get(name)
        if bucket is None or not bucket.alive:
            return refusal(404, "not_found")
        if self.counts(name)[-1]:
            self.swept(surely=self.counts(name)[0] > 0)
        if not emptied:
            return refusal(409, "bucket_not_empty")
        for held in [held for held in self.streams if held.bucket == name]:
            self._finish(held)
        bucket.alive = False
        return Expected(204, {"cache-control": "no-store"})

    def emptied(self, name: str) -> list[bool]:
        """Whether the bucket could be found empty, after a look at what is over."""
        held = [where for where in self.streams if where.bucket == name]
        outcomes = [True] if all(self._may(where, stay=False) for where in held) else []
        return outcomes + ([False] if any(self._may(where, stay=True) for where in held) else [])

    def _may(self, name: Name, *, stay: bool) -> bool:
        """Whether something of a stream may stay once the node has looked, for itself or for its forks; or may go."""
        stream = self.streams[name]
        itself = not stream.hidden and stay in self.possible(name)
        forks = [self._may(fork, stay=stay) for fork in stream.forks]
        return itself or any(forks) if stay else (itself or stream.hidden) and all(forks)

    def _finish(self, name: Name) -> None:
        """It and all of its forks were over."""
        while name in self.streams and self.streams[name].forks:
            self._finish(self.streams[name].forks[0])
        if name in self.streams:
            self.bury(name)

    def listed(self, name: str) -> dict[str, dict[str, object] | None]:
        """The lines of a bucket's listing in order; a line that may be missing is there under its name with `?`."""
        lines: dict[str, dict[str, object] | None] = {}
        for where in sorted(self.streams, key=lambda where: where.stream.encode()):
            stream, alive = self.streams[where], self.possible(where)
            if where.bucket == name and True in alive and not stream.hidden:
                lines[where.stream if False not in alive else where.stream + "?"] = {
                    "stream_id": where.stream, "status": "Closed" if stream.closed else "Open",
                    "content_type": stream.content_type, "tail_offset": stream.tail,
                    "created_at_ms": stream.created_us // 1000, "last_write_at_ms": stream.written_us // 1000,
                }  # fmt: skip
        return lines


# --- the small rules ------------------------------------------------------------------------------------------------


def lifetime(stream: Stream) -> Times:
    return stream.ttl_s, stream.expires_us


def media(content_type: str) -> str:
    return content_type.split(";", maxsplit=1)[0].strip().lower()


def entries_of(body: bytes, *, is_json: bool) -> list[bytes] | None:
    """The entries of a body; None when it is not what the stream keeps. No body is no entries."""
    if not body or not is_json:
        return [body] if body else []
    try:
        # Of bytes this parser would take UTF-16, in which 00 34 is a number. `int` refuses NaN and its like.
        value = json.loads(body.decode(), parse_constant=int)
    except ValueError:
        return None
    # The model writes JSON without blanks, so that an element's own text is its canonical one.
    return [written(one) for one in value] if isinstance(value, list) else [written(value)]


def written(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def sortable(text: str | None) -> bytes:
    return (text or "").encode()


def joined(entries: list[bytes], *, as_json: bool) -> bytes:
    return b"[" + b",".join(entries) + b"]" if as_json else b"".join(entries)


def token(epoch: int, seq: int) -> str:
    number = (epoch << 96 | seq << 32) << 2
    return "".join(ALPHABET[number >> 5 * (25 - at) & 31] for at in range(26))


def decoded(text: str) -> tuple[int, int] | None:
    if len(text) != 26 or not set(text.upper()) <= set(ALPHABET):
        return None
    number = 0
    for char in text.upper():
        number = number * 32 + ALPHABET.index(char)
    return number >> 98, (number >> 34) % 2**64


def closed_header(*, shown: bool) -> dict[str, str]:
    return {"stream-closed": "true"} if shown else {}


def producer_headers(producer: tuple[str, int, int] | None) -> dict[str, str]:
    return {} if producer is None else {"producer-epoch": str(producer[1]), "producer-seq": str(producer[2])}


def refusal(status: int, code: str, **headers: str) -> Expected:
    shape = {"content-type": "application/json", "cache-control": "no-store"}
    return Expected(status, shape | headers, None, code)


def gap(expected: int, received: int) -> Expected:
    facts = {"producer-expected-seq": str(expected), "producer-received-seq": str(received)}
    return refusal(409, "producer_gap", **facts)
