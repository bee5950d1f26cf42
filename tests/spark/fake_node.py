"""A node that only gives out work, with the rules of leases and covers that a real one keeps."""

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from typing_extensions import override

from indexers.messages import (
    Build,
    Claim,
    ClaimRequest,
    CommitRequest,
    IndexObject,
    Meaning,
    Merge,
    RenewRequest,
    StoreAt,
)

TOKEN = "secret-of-the-test"
Answer = tuple[int, bytes]


@dataclass
class Lease:
    claim: Claim
    ends: float


@dataclass
class FakeNode:
    """`work` waits to be claimed, a list a claim. `faults` answer the next requests of a kind instead of the rules."""

    store: StoreAt
    meanings: list[Meaning]
    work: deque[list[Build | Merge]] = field(default_factory=deque)
    lease_ms: int = 20_000
    token: str | None = TOKEN
    faults: dict[str, deque[Answer]] = field(default_factory=dict)
    after: dict[str, Callable[[], None]] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    claims: int = 0
    renewals: list[RenewRequest] = field(default_factory=list)
    commits: list[CommitRequest] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    drivers: set[str] = field(default_factory=set)
    url: str = ""

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._answers: dict[tuple[str, int], Answer] = {}

    # --- what a test asks ---

    @property
    def objects(self) -> list[IndexObject]:
        return [each for commit in self.commits for each in commit.objects]

    def covered(self) -> list[tuple[str, int, int]]:
        """Family, stream and sequence of every entry that is covered, as often as it is."""
        return sorted(
            (each.family, cover.stream, seq)
            for each in self.objects
            if each.level == 0
            for cover in each.covers
            for seq in range(cover.first_seq, cover.end_seq)
        )

    def give(self, *work: Build | Merge) -> None:
        with self._changed:
            self.work.append(list(work))
            self._changed.notify_all()

    def until(self, holds: Callable[["FakeNode"], bool], what: str, seconds: float = 100.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self), seconds), f"not within {seconds} s: {what}"

    # --- what a driver asks ---

    def answer(self, what: str, body: bytes, token: str | None) -> Answer:
        if self.token is not None and token != f"Bearer {self.token}":
            return 401, b'{"error":{"code":"unauthorized"}}'
        with self._changed:
            self._expire()
            planned = self.faults.get(what)
            if planned:
                return planned.popleft()
            answer: Answer = getattr(self, what)(body)
            self._changed.notify_all()
        if what in self.after:
            self.after[what]()
        return answer

    def claim(self, body: bytes) -> Answer:
        asked = msgspec.json.decode(body, type=ClaimRequest)
        self.drivers.add(asked.driver)
        self.claims += 1
        self._changed.wait_for(lambda: bool(self.work), min(asked.wait_ms / 1000, 2.0))
        if not self.work:
            return 204, b""
        claim = Claim(
            claim=secrets.token_hex(8), fence=self.claims, lease_ms=self.lease_ms, store=self.store,
            meanings=self.meanings, work=self.work.popleft(),
        )  # fmt: skip
        self.leases[claim.claim] = Lease(claim, time.monotonic() + self.lease_ms / 1000)
        return 200, msgspec.json.encode(claim)

    def renew(self, body: bytes) -> Answer:
        asked = msgspec.json.decode(body, type=RenewRequest)
        lease = self._lease(asked.claim, asked.fence)
        if lease is None:
            return self._refuse("renew of no lease")
        lease.ends = time.monotonic() + self.lease_ms / 1000
        self.renewals.append(asked)
        return 200, b"{}"

    def commit(self, body: bytes) -> Answer:
        asked = msgspec.json.decode(body, type=CommitRequest)
        if (asked.claim, asked.fence) in self._answers:  # it came before, and the answer was lost
            return self._answers[asked.claim, asked.fence]
        lease = self._lease(asked.claim, asked.fence)
        if lease is None:
            return self._refuse("commit of no lease")
        del self.leases[asked.claim]
        failed = {each.made for each in asked.failed}
        done = {(cover.stream, cover.first_seq) for each in asked.objects for cover in each.covers}
        left: list[Build | Merge] = [
            each
            for each in lease.claim.work
            if isinstance(each, Build)
            and each.source.made not in failed
            and not all((stretch.stream, stretch.first_seq) in done for stretch in each.stretches)
        ]
        if left:
            self.work.append(left)
        self.commits.append(asked)
        self._answers[asked.claim, asked.fence] = (200, b"{}")
        return 200, b"{}"

    def _lease(self, claim: str, fence: int) -> Lease | None:
        lease = self.leases.get(claim)
        return lease if lease is not None and lease.claim.fence == fence else None

    def _refuse(self, why: str) -> Answer:
        self.refused.append(why)
        return 409, json.dumps({"error": {"code": "lease_lost", "message": why}}).encode()

    def _expire(self) -> None:
        for name, lease in list(self.leases.items()):
            if lease.ends < time.monotonic():
                del self.leases[name]
                self.work.append(lease.claim.work)


@contextmanager
def served(node: FakeNode) -> Iterator[FakeNode]:
    """The node, on a port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                self._answer()
            except ConnectionError:  # the driver is gone, or the test wants the answer to be lost
                self.close_connection = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, text = node.answer(self.path.rpartition("/")[2], body, self.headers["authorization"])
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        @override
        def log_message(self, format: str, *arguments: Any) -> None:
            """Not into the output of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    node.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield node
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
