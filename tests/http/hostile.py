"""Requests that nobody means well with: written down in the corpus, or drawn from a seed.

A case is data. In the corpus a text stands for its latin-1 bytes, and `["x", 5000]` for a text many times over.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
_serial = count(1)


@dataclass(frozen=True)
class Case:
    """One request; a body in parts has no length."""

    method: str
    target: bytes
    lines: tuple[tuple[bytes, bytes], ...] = ()
    parts: tuple[bytes, ...] = ()
    why: str = ""

    def written(self) -> str:
        """As a file of the corpus would have it."""
        fields = {
            "why": self.why, "method": self.method, "target": _short(self.target),
            "headers": [[_short(name), _short(value)] for name, value in self.lines],
            "body": [_short(part) for part in self.parts],
        }  # fmt: skip
        return json.dumps(fields, indent=1)


def corpus() -> list[Case]:
    """The cases that are kept, by file name."""
    return [_read(path) for path in sorted(CORPUS.glob("*.json"))]


def _read(path: Path) -> Case:
    kept = json.loads(path.read_text("utf-8"))
    lines = tuple((_bytes(name), _bytes(value)) for name, value in kept.get("headers", []))
    parts = tuple(_bytes(part) for part in kept.get("body", []))
    return Case(kept["method"], _bytes(kept["target"]), lines, parts, why=f"{path.name}: {kept['why']}")


def _bytes(text: str | list[object]) -> bytes:
    """A text, a text many times over, or a list of both."""
    if isinstance(text, str):
        return text.encode("latin-1")
    if len(text) == 2 and isinstance(text[0], str) and isinstance(text[1], int):
        return text[0].encode("latin-1") * text[1]
    return b"".join(_bytes(part) for part in text)  # type: ignore[arg-type]


def _short(raw: bytes) -> str | list[object]:
    text = raw.decode("latin-1")
    return text if len(text) < 2000 else [text[:1], len(text)] if len(set(text)) == 1 else text


# --- what the mutations are made of ---------------------------------------------------------------------------------

METHODS = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get", "", "G T"]
PATHS = [
    b"/v1/stream/a", b"/v1/stream/shop/a", b"/v1/stream/shop/deep/er", b"/shop/a", b"/shop", b"/shop/streams", b"/",
    b"/v1/streams", b"/v1/stream/", b"/v1", b"/health", b"/readyz", b"/livez", b"/metrics",
    b"/v1/stream/__ds/jwks.json", b"/v1/stream/a/_search", b"/shop/a/snapshot/x", b"/v1/stream/a/touch/wait",
    b"/v1/stream/a/pk/k", b"/fresh/x", b"/docs", b"/openapi.json", b"/ui/", b"/v1/server/_details",
    b"/__ursula/metrics",
]  # fmt: skip
TOKENS = [
    b"..", b"/../", b"/./", b"//", b"%2e%2e", b"%2F", b"%2f..%2f", b"%5c", b"\\", b"%00", b"\0", b"%", b"%4", b"%zz",
    b"%%", b"%c3", b"%c3%28", b"%ff", b"%ed%a0%80", b"%c0%ae", b"%f4%90%80%80", b"%F0%9F%98%80", b"%C3%A9",
    b"\xc3\xa9", b"\xff", b"%0d%0aX:%20y", b"%20", b" ", b"+", b"%2B", b";x=y", b"#", b"?", b"&", b"=", b"*", b"~",
    b"'", b'"', b"<b>", b"{", b"}", b"a" * 130, b"%61" * 200, b"b" * 600, b"c" * 5000, b"__", b"__registry__",
    b"streams", b"snapshot", b"_search", b"pk/", b"append-batch", b"%u0041", b"\x7f", b"\x01", b"\xe2\x80\xae",
    b"%E2%80%AE", b".", b"...", b"-1", b"now",
]  # fmt: skip
NAMES = [
    b"content-type", b"content-length", b"stream-seq", b"stream-closed", b"stream-ttl", b"stream-expires-at",
    b"stream-key", b"stream-timestamp", b"producer-id", b"producer-epoch", b"producer-seq", b"if-none-match",
    b"authorization", b"host", b"origin", b"x-request-id", b"x-forwarded-proto", b"x-forwarded-for", b"forwarded",
    b"expect", b"upgrade", b"range", b"accept", b"accept-encoding", b"content-encoding", b"transfer-encoding",
    b"cookie", b"stream-forked-from", b"stream-fork-offset", b"stream-fork-sub-offset", b"connection", b"te",
    b"trailer", b"x-unknown", b"prefer", b"x-http-method-override", b"content-range", b"if-match",
    b"if-modified-since", b"access-control-request-method",
]  # fmt: skip
VALUES = [
    b"", b" ", b"\t", b"true", b"TRUE", b"false", b"0", b"1", b"-1", b"+1", b"00", b"1.5", b"1e3", b"0x10", b"NaN",
    b"null", b"9007199254740991", b"9007199254740992", b"99999999999999999999999", b"9" * 400, b"9" * 5000,
    b"a" * 300, b"a" * 9000, b"\xff\xfe", "é".encode(), "\u202e".encode(), b"\x00", b"a\x00b", b"a\nb", b"a\r\nx: y",
    b"\x7f", b"*", b'"x"', b'W/"x"', b'"', b",", b",,,", b";", b"application/json",
    b"application/json; charset=utf-8", b"text/plain", b"text", b"/", b"a/b/c", b"text/plain; =", b"24h", b"1ms",
    b"100000000d", b"2099-01-01T00:00:00Z", b"0001-01-01T00:00:00Z", b"9999-12-31T23:59:60Z", b"2026-02-30T00:00:00Z",
    b"2026-01-01T00:00:00+99:99", b"-1000000000", b"Bearer x", b"Bearer", b"chunked", b"gzip", b"100-continue",
    b"example.com", b"example.com:99999", b"[::1]", b"evil.example/..", b"a b", b"p", b"../../etc/passwd",
    b"bytes=0-", b"%s%s%n", b"'; DROP TABLE log; --", b"{{7*7}}", b"<script>",
]  # fmt: skip
QUERIES = [
    b"offset=-1", b"offset=now", b"offset=00000000000000000000000000", b"offset=0000000000000000000G000000",
    b"live=long-poll", b"live=sse", b"live=true", b"timeout=1", b"timeout_ms=1", b"max_bytes=10", b"cursor=5",
    b"format=raw", b"format=json", b"prefix=a", b"after=a", b"limit=10", b"key=x", b"filter=x",
    b"since=2026-01-01T00:00:00Z", b"x=y",
]  # fmt: skip
JSONS = [
    b"[]", b"[1,2,3]", b"{}", b"null", b'"x"', b"[", b"]", b"[1,]", b"{,}", b"[1 2]", b"nul", b"NaN", b"[1e999999]",
    b'"\\ud800"', b'"\xff"', b"\xef\xbb\xbf[]", b"\0", b"[" * 3000 + b"]" * 3000, b"[" * 100_000, b'{"a":' * 5000,
    b"1" * 10_000, b" " * 5000, b"[" + b"0," * 3000 + b"0]", b'{"a":1,"a":2}', b"[[[[]]]]", b"\xc3\x28", b"'x'",
    b"// x", b"[1]\n[2]", b"0" * 400, b"\x1f\x8b\x08\x00", b"PK\x03\x04", b"--x\r\n", b"a=b&c=d", b"<a/>",
    b"\x00\x00\x00\x01", b'["' + b"x" * 5000 + b'"]',
]  # fmt: skip


class Draw:
    """Cases out of a seed, one method a kind."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.kinds: dict[str, Callable[[], Case]] = {
            "paths": self.path, "headers": self.headers, "queries": self.query, "bodies": self.body,
            "creates": self.create, "methods": self.method, "everything": self.everything,
        }  # fmt: skip

    def path(self) -> Case:
        method = self._chance.choice(["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"])
        return Case(method, self._damaged(self._one(PATHS), TOKENS), ((b"content-type", b"text/plain"),), (b"x",))

    def method(self) -> Case:
        return Case(self._chance.choice(METHODS), self._one(PATHS), self._lines(2), self._parts())

    def headers(self) -> Case:
        method = self._chance.choice(["GET", "PUT", "POST", "POST", "DELETE", "HEAD", "OPTIONS"])
        return Case(method, self._one(PATHS[:8]), self._lines(6), (b"[1]",) if method in {"PUT", "POST"} else ())

    def query(self) -> Case:
        pairs = [self._damaged(self._one(QUERIES), TOKENS + VALUES) if self._often() else self._one(QUERIES)
                 for _ in range(self._chance.randint(1, 6))]  # fmt: skip
        if self._chance.random() < 0.05:
            pairs *= 30
        path = self._one([b"/v1/stream/a", b"/shop/a", b"/shop/streams", b"/v1/streams", b"/v1/stream/nope", b"/shop"])
        return Case(self._chance.choice(["GET", "GET", "GET", "HEAD", "POST"]), path + b"?" + b"&".join(pairs))

    def body(self) -> Case:
        kind = self._one([b"application/json", b"application/json", b"text/plain", b"image/png"])
        path = self._one([b"/v1/stream/a", b"/shop/a", b"/v1/stream/text", b"/v1/stream/nope"])
        return Case("POST", path, ((b"content-type", kind), *self._lines(1)), self._parts())

    def create(self) -> Case:
        """A PUT of a name that is not there yet."""
        name = b"fresh-%d" % next(_serial)
        path = self._one([b"/v1/stream/", b"/v1/stream/shop/", b"/shop/", b"/v1/stream/new-%d/" % next(_serial)]) + name
        kind = ((b"content-type", self._one([b"application/json", b"application/json", b"text/plain", *VALUES])),)
        return Case("PUT", path, (*kind[: self._chance.randint(0, 3)], *self._lines(3)), self._parts())

    def everything(self) -> Case:
        case = self._chance.choice([self.path, self.method, self.headers, self.query, self.body])()
        target = self._damaged(case.target, TOKENS) if self._often() else case.target
        return replace(case, target=target, lines=(*case.lines, *self._lines(4)), parts=self._parts() or case.parts)

    # --- pieces -----------------------------------------------------------------------------------------------------

    def _one(self, pool: Sequence[bytes]) -> bytes:
        return self._chance.choice(pool)

    def _often(self) -> bool:
        return self._chance.random() < 0.6

    def _damaged(self, raw: bytes, pool: Sequence[bytes]) -> bytes:
        """Put something in, cut something out, or turn a byte over."""
        for _ in range(self._chance.randint(1, 3)):
            at = self._chance.randint(0, len(raw))
            match self._chance.randint(0, 4):
                case 0:
                    raw = raw[:at] + raw[at + self._chance.randint(1, 3) :]
                case 1 if raw:
                    raw = raw[: at - 1] + bytes((self._chance.randrange(256),)) + raw[at:] if at else raw
                case _:
                    raw = raw[:at] + self._one(pool) + raw[at:]
        return raw

    def _lines(self, most: int) -> tuple[tuple[bytes, bytes], ...]:
        lines = [(self._one(NAMES), self._value()) for _ in range(self._chance.randint(0, most))]
        if lines and self._chance.random() < 0.15:
            lines.append((self._chance.choice(lines)[0], self._value()))
        return tuple(lines)

    def _value(self) -> bytes:
        value = self._one(VALUES)
        return self._damaged(value, VALUES) if self._chance.random() < 0.2 else value

    def _parts(self) -> tuple[bytes, ...]:
        body = self._one(JSONS)
        body = self._damaged(body, JSONS) if self._chance.random() < 0.2 else body
        if self._chance.random() < 0.7:
            return (body,)
        cut = self._chance.randint(0, len(body))
        return body[:cut], body[cut:]


def simpler(case: Case) -> Iterator[Case]:
    """Cases with one thing less, to find out what matters."""
    for at in range(len(case.lines)):
        yield replace(case, lines=case.lines[:at] + case.lines[at + 1 :])
    if case.parts:
        yield replace(case, parts=())
    path, mark, query = case.target.partition(b"?")
    if mark:
        yield replace(case, target=path)
        pairs = query.split(b"&")
        for at in range(len(pairs) if len(pairs) > 1 else 0):
            yield replace(case, target=path + b"?" + b"&".join(pairs[:at] + pairs[at + 1 :]))
