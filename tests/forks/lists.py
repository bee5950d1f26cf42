"""Streams and forks as plain lists, next to a node that has to say the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

JSON = "application/json"
BYTES = "application/octet-stream"
START = "0000000000000000_0000000000000000"
KEYS = ("a", "b", None)


class Said(Protocol):
    """An answer of a node."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> dict[str, str]: ...

    @property
    def body(self) -> bytes: ...


class Asked(Protocol):
    """A node, wherever it runs."""

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Said: ...


@dataclass
class Stream:
    """What one incarnation should show. `appends` are the ends of its appends, in order."""

    name: str
    content_type: str
    entries: list[tuple[bytes, str | None]] = field(default_factory=list)
    appends: list[int] = field(default_factory=list)
    tokens: dict[int, str] = field(default_factory=dict)
    source: "Stream | None" = None
    forks: int = 0
    closed: bool = False
    hidden: bool = False
    earliest: int = 0  # entries before it were trimmed away

    @property
    def path(self) -> str:
        return f"/v1/stream/{self.name}"

    @property
    def is_json(self) -> bool:
        return self.content_type == JSON

    def forked(self, name: str, seq: int, copied: bytes) -> "Stream":
        """What a fork begins with."""
        ends = [end for end in self.appends if end < seq] + ([seq] if seq else [])
        tokens = {at: token for at, token in self.tokens.items() if at <= seq}
        made = Stream(name, self.content_type, self.entries[:seq], ends, tokens, source=self, earliest=self.earliest)
        if copied:
            made.entries.append((copied, None))
            made.appends.append(seq + 1)
        self.forks += 1
        return made


class Lists:
    """A table of streams by name, and what happens to them."""

    def __init__(self, driver: Asked, random: Random) -> None:
        self.driver = driver
        self.random = random
        self.streams: dict[str, Stream] = {}
        self.made = 0

    # --- what happens ---

    def create(self) -> None:
        stream = Stream(self._name(), self.random.choice((JSON, BYTES)))
        if self._there(stream.name):
            return
        reply = self.driver.ask("PUT", stream.path, {"content-type": stream.content_type})
        assert reply.status == 201, reply
        stream.tokens[0] = reply.headers["stream-next-offset"]
        self.streams[stream.name] = stream

    def append(self) -> None:
        stream = self._living()
        if stream is None:
            return
        if stream.closed:
            assert self.driver.ask("POST", stream.path, {"content-type": stream.content_type}, b"1").status == 409
            return
        entries, body = self._content(stream)
        key = self.random.choice(KEYS)
        headers = {"content-type": stream.content_type} | ({} if key is None else {"stream-key": key})
        if self.random.random() < 0.03:
            headers["stream-closed"] = "true"
            stream.closed = True
        reply = self.driver.ask("POST", stream.path, headers, body)
        assert reply.status == 204, reply
        stream.entries += [(entry, key) for entry in entries]
        stream.appends.append(len(stream.entries))
        stream.tokens[len(stream.entries)] = reply.headers["stream-next-offset"]

    def fork(self) -> None:
        source = self.streams.get(self.random.choice(list(self.streams))) if self.streams else None
        name = self._name()
        if source is None or self._there(name) or name == source.name:
            return
        seq = self.random.choice(list(source.tokens))
        sub, taken, copied = self._sub(source, seq)
        headers = {"stream-forked-from": source.path, "stream-fork-sub-offset": str(sub)}
        if seq < len(source.entries) or self.random.random() < 0.5:
            headers["stream-fork-offset"] = START if seq == 0 else source.tokens[seq]
        own, body = self._content(source) if self.random.random() < 0.3 else ([], b"")
        reply = self.driver.ask("PUT", f"/v1/stream/{name}", headers, body)
        if source.hidden:
            assert reply.status == 409, reply
            return
        if seq < source.earliest:
            assert reply.status == 410, (reply, seq, source.earliest)
            return
        if taken is None:
            assert reply.status == 400, (reply, seq, sub)
            return
        assert reply.status == 201, reply
        assert reply.headers["content-type"] == source.content_type
        assert not [header for header in reply.headers if header.startswith("stream-fork")]
        made = source.forked(name, taken, copied)
        if own:
            made.entries += [(entry, None) for entry in own]
            made.appends.append(len(made.entries))
        made.tokens[len(made.entries)] = reply.headers["stream-next-offset"]
        self.streams[name] = made
        assert self.driver.ask("PUT", made.path, headers, body).status == 200

    def delete(self) -> None:
        name = self._name()
        stream = self.streams.get(name)
        reply = self.driver.ask("DELETE", f"/v1/stream/{name}")
        assert reply.status == (404 if stream is None else 410 if stream.hidden else 204), reply
        if stream is not None and not stream.hidden:
            self._end(stream)

    def end_all(self) -> None:
        """Delete all that can be deleted, in any order; what was kept goes with it."""
        while living := [stream for stream in self.streams.values() if not stream.hidden]:
            stream = self.random.choice(living)
            assert self.driver.ask("DELETE", stream.path).status == 204
            self._end(stream)
        assert not self.streams

    def trim(self) -> Stream | None:
        """Entries leave the beginning of a stream; its forks keep what they share."""
        stream = self._living()
        if stream is not None:
            stream.earliest = self.random.choice([at for at in stream.tokens if at >= stream.earliest])
        return stream

    # --- what is said ---

    def look(self) -> None:
        """One stream, in one of the ways in which streams are read."""
        name = self._name()
        stream = self.streams.get(name)
        if stream is None or stream.hidden:
            wanted = 404 if stream is None else 410
            for method in ("GET", "HEAD", "POST", "DELETE"):
                headers = {"content-type": JSON} if method == "POST" else {}
                reply = self.driver.ask(method, f"/v1/stream/{name}", headers, b"1" if method == "POST" else b"")
                assert reply.status == wanted, reply
            return
        start = self.random.choice(list(stream.tokens))
        if start < stream.earliest:
            reply = self.driver.ask("GET", f"{stream.path}?offset={stream.tokens[start]}")
            assert reply.status == 410, reply
            assert reply.headers["stream-earliest-offset"] == stream.tokens[stream.earliest]
            return
        match self.random.randrange(4):
            case 0:
                self.check(stream, start, "&max_bytes=40")
            case 1:
                self.check(stream, start, "")
            case 2:
                self.check(stream, start, "&live=long-poll&timeout_ms=0")
            case 3:
                self.check(stream, start, "&key=a", key="a")

    def check(self, stream: Stream, start: int, query: str, key: str | None = None) -> None:
        """Everything from an entry on, page by page; one entry a page tells the offset behind each."""
        at, token, found = start, stream.tokens[start], list[bytes]()
        wanted = [entry for entry, its in stream.entries[start:] if key is None or its == key]
        while True:
            reply = self.driver.ask("GET", f"{stream.path}?offset={token}{query}")
            if reply.status == 204:
                break
            assert reply.status == 200, (stream.name, reply)
            found += self._entries(stream, reply)
            after = reply.headers["stream-next-offset"]
            if stream.is_json and key is None:
                at += len(self._entries(stream, reply))
                assert stream.tokens.setdefault(at, after) == after
            if "stream-up-to-date" in reply.headers:
                break
            assert after != token
            token = after
        tail = reply.headers["stream-next-offset"]
        assert tail == stream.tokens[len(stream.entries)], stream.name
        if stream.is_json:
            assert found == wanted, stream.name
        else:
            assert b"".join(found) == b"".join(wanted), stream.name

    def check_all(self) -> None:
        for stream in self.streams.values():
            if stream.hidden:
                assert self.driver.ask("GET", stream.path).status == 410
            else:
                self.check(stream, stream.earliest, self.random.choice(("", "&max_bytes=30")))

    # --- helpers ---

    def _name(self) -> str:
        return f"s{self.random.randrange(8)}"

    def _there(self, name: str) -> bool:
        """What is asked for again with another configuration is refused, and nothing happens."""
        if name not in self.streams:
            return False
        reply = self.driver.ask("PUT", f"/v1/stream/{name}", {"content-type": "text/other"})
        assert reply.status == 409, reply
        return True

    def _living(self) -> Stream | None:
        living = [stream for stream in self.streams.values() if not stream.hidden]
        return self.random.choice(living) if living else None

    def _content(self, stream: Stream) -> tuple[list[bytes], bytes]:
        self.made += 1
        if not stream.is_json:
            body = f"<{self.made}:{'x' * self.random.randrange(30)}>".encode()
            return [body], body
        values = [f"{self.made}.{at}" for at in range(self.random.randint(1, 4))]
        return [json.dumps(value).encode() for value in values], json.dumps(values).encode()

    def _sub(self, source: Stream, seq: int) -> tuple[int, int | None, bytes]:
        """A sub-offset, the first entry that is not shared, None for a refusal, and what is copied."""
        if self.random.random() < 0.5:
            return 0, seq, b""
        if seq == len(source.entries):
            return 1, None, b""
        if source.is_json:
            most = min(end for end in source.appends if end > seq) - seq
            sub = self.random.randint(1, most + 1)
            return sub, (seq + sub if sub <= most else None), b""
        entry = source.entries[seq][0]
        sub = self.random.randint(1, len(entry) + 1)
        return sub, (seq if sub <= len(entry) else None), entry[:sub]

    def _entries(self, stream: Stream, reply: Said) -> list[bytes]:
        if not stream.is_json:
            return [reply.body]
        values: list[Any] = json.loads(reply.body)
        return [json.dumps(value).encode() for value in values]

    def _end(self, stream: Stream) -> None:
        if stream.forks:
            stream.hidden = True
            return
        del self.streams[stream.name]
        if stream.source is not None:
            stream.source.forks -= 1
            if stream.source.hidden and not stream.source.forks:
                self._end(stream.source)
