"""`python -m ops.bench.search`: what searches take, with a real node over HTTP, and beside others.

Appends log events of 460 bytes to a stream with 14 declared fields, waits until all of them are indexed, and asks the
same questions of every side: this node; `@prisma/streams-server` with `--peers`; and Tantivy alone in this process, on
one merged index, without HTTP and without fetching records. A side's answers count once it says that its coverage is
complete, and where the order of hits is fixed all sides must show the same ones.

    python -m ops.bench.search [--events 200000] [--rounds 40] [--peers] [--work-dir DIR]

With `--beside-appends`, how many searches of this node are answered while 2,000 events a second are appended, and how
soon an event is found: see search_fresh.py.

    python -m ops.bench.search --beside-appends [--events 200000] [--work-dir DIR]
"""

import argparse
import http.client
import json
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ops.bench import machine, peers
from ops.bench.errors import BenchError
from ops.bench.events import LogEvents
from ops.bench.indexing import BATCH_EVENTS
from ops.bench.search_queries import QUERIES, Bare, Question, questions
from ops.bench.servers import Server, ServerSpec, specs
from ops.bench.stats import percentile

STREAM = "/v1/stream/logs"
JSON = {"content-type": "application/json"}
LOOK_S = 0.5
NUDGE_S = 15.0  # longer than the 5 s of quiet that it wants before it looks into its log
COMPLETE_S = 600.0
CLIENTS = (1, 8)
SECONDS_A_CELL = 20.0
HEAD = ("query", "side", "clients", "p50 ms", "p95 ms", "p99 ms", "asked", "not 200", "same hits")


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body=body, headers=JSON)
        reply = self._connection.getresponse()
        return reply.status, reply.read()

    def good(self, method: str, path: str, body: bytes | None = None) -> Any:
        status, said = self.ask(method, path, body)
        if status not in range(200, 300):
            raise BenchError(f"{method} {path}: {status} {said[:300]!r}")
        return json.loads(said) if said else None

    def search(self, asked: Any) -> tuple[int, Any]:
        status, said = self.ask("POST", f"{STREAM}/_search", orjson.dumps(asked))
        return status, orjson.loads(said)


class Timing(NamedTuple):
    seconds: list[float]
    failures: int
    hits: dict[int, list[str]]  # of questions whose hits have one order, by number


def declared() -> dict[str, Any]:
    """As for the building of indexes, and beginnings of two keywords."""
    made = LogEvents().declared()
    for name in ("userId", "path"):
        made["search"]["fields"][name]["prefix"] = True
    return made


def fill(client: Client, count: int) -> list[dict[str, Any]]:
    """Declare and append; the events."""
    client.good("PUT", STREAM)
    client.good("POST", f"{STREAM}/_schema", orjson.dumps(declared()))
    events, sent = LogEvents(), list[dict[str, Any]]()
    while len(sent) < count:
        body = events.batch(min(BATCH_EVENTS, count - len(sent)))
        while True:
            status, said = client.ask("POST", STREAM, body)
            if status not in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
                break
            time.sleep(LOOK_S)
        if status not in range(200, 300):
            raise BenchError(f"append: {status} {said[:300]!r}")
        sent += orjson.loads(body)
    return sent


def until_complete(client: Client, *, nudge: bool) -> float:
    """Wait until all of it is indexed, as the side itself says; how long that took.

    The other server may leave what it has not sealed alone until the next append: it gets an empty event now and then,
    by `nudge`.
    """
    began = nudged = time.monotonic()
    while time.monotonic() - began < COMPLETE_S:
        if nudge and time.monotonic() - nudged > NUDGE_S:
            client.ask("POST", STREAM, b"[{}]")
            nudged = time.monotonic()
        client.ask("POST", f"{STREAM}/_flush")  # a side that knows no such thing answers 404
        families = client.good("GET", f"{STREAM}/_index_status")["search_families"]
        whole = [each["fully_indexed_uploaded_segments"] for each in families if each["family"] in {"col", "fts"}]
        status, view = client.search({"q": "status:500", "size": 1})
        if whole and all(whole) and status == HTTPStatus.OK and view["coverage"]["complete"]:
            return time.monotonic() - began
        time.sleep(LOOK_S)
    raise BenchError(f"not complete within {COMPLETE_S:.0f} s")


def over_http(port: int) -> Callable[[], Callable[[Question], list[str] | None]]:
    """Askers, a connection each: the ids of all hits of a question; None for anything but a whole page."""

    def asker() -> Callable[[Question], list[str] | None]:
        client = Client(port)

        def ask(question: Question) -> list[str] | None:
            found, after = list[str](), None
            for _ in range(question.pages):
                status, view = client.search({**question.asked, "search_after": after})
                if status != HTTPStatus.OK or not view["coverage"]["complete"]:
                    return None
                found += [hit["source"]["requestId"] for hit in view["hits"]]
                after = view["next_search_after"]
                if after is None:
                    break
            return found

        return ask

    return asker


def timed(
    asked: Sequence[Question], asker: Callable[[], Callable[[Question], list[str] | None]], clients: int, rounds: int
) -> Timing:
    """Ask each client's share of the questions, `rounds` in all, or for as long as a cell may take."""
    seconds, hits, failures = list[float](), dict[int, list[str]](), 0
    lock, ends = threading.Lock(), time.monotonic() + SECONDS_A_CELL

    def work(first: int) -> None:
        nonlocal failures
        ask = asker()
        ask(asked[first % len(asked)])  # the connection is open, and what is opened once is open
        for number in range(first, rounds, clients):
            question = asked[number % len(asked)]
            began = time.perf_counter()
            found = ask(question)
            took = (time.perf_counter() - began) / question.pages
            with lock:
                seconds.append(took)
                if found is None:
                    failures += 1
                elif question.ordered:
                    hits[number % len(asked)] = found
            if time.monotonic() > ends:
                return

    threads = [threading.Thread(target=work, args=(first,), daemon=True) for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not seconds:
        raise BenchError(f"no answer to {asked[0].asked}")
    return Timing(seconds, failures, hits)


def measured(
    side: str, asker: Callable[[], Callable[[Question], list[str] | None]], asked: dict[str, list[Question]],
    truth: dict[str, dict[int, list[str]]], rounds: int,
) -> Iterator[tuple[str, ...]]:  # fmt: skip
    for name, some in asked.items():
        for clients in CLIENTS:
            cell = timed(some, asker, clients, max(clients * 2, rounds // some[0].pages))
            known = truth.setdefault(name, {})
            same = all(known.setdefault(number, found) == found for number, found in cell.hits.items())
            marks = [f"{1000 * percentile(cell.seconds, share):.2f}" for share in (0.5, 0.95, 0.99)]
            said = ("yes" if same else "NO") if cell.hits else "-"
            yield (name, side, str(clients), *marks, str(len(cell.seconds)), str(cell.failures), said)


def ours(more: str = "--index-due-bytes 0 --index-due-ms 0") -> ServerSpec:
    program = shlex.quote(str(Path(sys.executable).with_name("streams-node")))
    return specs(("ours",), f"{program} serve --no-auth --data {{data}} --port {{port}} {more}")[0]


def run(options: argparse.Namespace, folder: Path) -> None:
    sides = [ours(), *(specs(("prisma-tuned",), "x") if options.peers else [])]
    truth: dict[str, dict[int, list[str]]] = {}
    events: list[dict[str, Any]] = []
    for spec in sides:
        server = Server(spec, folder / spec.name)
        try:
            server.start()
            client = Client(server.port)
            events = fill(client, options.events)
            seconds = until_complete(client, nudge=not spec.ours)
            print(f"{spec.title}: indexed {seconds:.0f} s after the last append", file=sys.stderr)
            server.wait_until_quiet(30)
            _rows(measured(spec.title, over_http(server.port), questions(events), truth, options.rounds))
        except BenchError:
            print(server.last_words(), file=sys.stderr)
            raise
        finally:
            server.stop()
            server.empty_data()
    bare = Bare(events, declared()["search"], folder / "bare")
    _rows(measured("Tantivy alone", lambda: bare.ask, questions(events), truth, options.rounds))


def run_beside_appends(options: argparse.Namespace, folder: Path) -> None:
    """The history is indexed at once; what is appended later, as the node does it by default."""
    from ops.bench import search_fresh  # noqa: PLC0415 - it uses what is here

    first = Server(ours(), folder / "ours")
    try:
        first.start()
        client = Client(first.port)
        events = fill(client, options.events)
        until_complete(client, nudge=False)
    finally:
        first.stop()
    server = Server(ours(""), folder / "again", first.data)
    try:
        server.start()
        for row in search_fresh.rows(server.port, events):
            print(row, flush=True)
    finally:
        server.stop()
        server.empty_data()


def _rows(rows: Iterator[tuple[str, ...]]) -> None:
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.search", description="What searches take.")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=40, help="questions of a kind, of each number of clients")
    parser.add_argument("--peers", action="store_true", help="@prisma/streams-server, too")
    parser.add_argument("--beside-appends", action="store_true", help="what appends do to searches, instead")
    parser.add_argument("--work-dir", type=Path, help="on a disk; a temporary folder of it is used")
    options = parser.parse_args()
    machine.ensure_linux()
    if options.peers:
        peers.ensure_installed()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as name:
        folder = Path(name)
        if options.beside_appends:
            run_beside_appends(options, folder)
            print(f"\n{machine.stamp(folder, 'tantivy', 'pyarrow')}")
            return 0
        print(f"{options.events} events; {len(QUERIES)} kinds of questions; of deep pages the time is of one\n")
        print(f"| {' | '.join(HEAD)} |\n| {' | '.join(['---'] * len(HEAD))} |", flush=True)
        run(options, folder)
        print(f"\n{machine.stamp(folder, 'tantivy', 'pyarrow')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
