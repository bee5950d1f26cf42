"""`python -m ops.bench.search`: what searches take, with a real node over HTTP, and beside others.

Appends log events of 460 bytes to a stream with 13 declared fields, or with `--set archive` events as in the public
archive of GitHub, waits until all of them are indexed, and asks the same questions of every side: this node; with
`--peers` `@prisma/streams-server` as it comes and tuned; and Tantivy alone in this process, on one merged index,
without HTTP and without fetching records. A side's answers count once it says that its coverage is complete, and where
the order of what is shown is fixed all sides must show the same. Each client asks all questions of a kind in turn, for
two seconds at least; then the next side is asked, and so on in five turns, of which the medians count. A side that does
not have the turn is stopped.

    python -m ops.bench.search [--set log|archive] [--events 200000] [--rounds 40] [--peers | --sides ours,tantivy]
                               [--turns 5] [--cold-rounds 3] [--out DIR] [--kept DIR] [--work-dir DIR]

`--out` names a folder of `search.json`: what was measured is put into it, beside what is there already, and SEARCH.md
is made of all of it. `--kept` keeps the data of this node and of Tantivy from run to run. Cells of this node with a
cold cache follow the others: started again, without its copies, with files that the system was told to forget.

With `--all`, all that SEARCH.md shows, one after another, and nothing of what was there before: 75 minutes.

    python -m ops.bench.search --all --out DIR [--kept DIR] [--work-dir DIR]

With `--beside-appends`, how many searches of this node are answered while 2,000 events a second are appended, how soon
an event is found, and what searches do to others: see search_fresh.py.

    python -m ops.bench.search --beside-appends [--events 200000] [--out DIR] [--kept DIR] [--work-dir DIR]

With `--engine`, the processor time of pages without HTTP, beside Tantivy alone: see search_engine.py.
"""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from ops.bench import machine, peers, search_report
from ops.bench.asking import Connection, Request, Talk
from ops.bench.cold_sides import drop_pages
from ops.bench.errors import BenchError
from ops.bench.events import SETS
from ops.bench.indexing import BATCH_EVENTS
from ops.bench.search_cells import COLD, EMPTIED, Cell, Side, cell, digest, in_threads, in_turns, over_http
from ops.bench.search_queries import (
    AGGREGATE,
    NAMES,
    READ,
    READ_BYTES,
    ROUTING_KEYS,
    Bare,
    Question,
    declared,
    questions,
)
from ops.bench.servers import Server, ServerSpec, specs

STREAM = "/v1/stream/logs"
LOOK_S = 0.5
NUDGE_S = 15.0  # longer than the 5 s of quiet that it wants before it looks into its log
COMPLETE_S = 1800.0
SAMPLE = 997  # each so many-th event is one to ask about
SECONDS_A_CELL = 20.0
TANTIVY = "tantivy"
_COMPLETE = b'"complete":true'  # no event has that
IDS = [names.id for names in NAMES.values()]
_BESIDE_TANTIVY = {"sides": ["ours", TANTIVY]}
_BESIDE_PEERS = {"sides": ["ours", "prisma", "prisma-tuned"], "events": 200_000}
ALL: Sequence[dict[str, Any]] = (
    {"set": "log", "events": 1_000_000, **_BESIDE_TANTIVY},
    {"set": "archive", "events": 1_000_000, **_BESIDE_TANTIVY},
    {"set": "log", "events": 4_000_000, **_BESIDE_TANTIVY},
    {"set": "log", **_BESIDE_PEERS},
    {"set": "archive", **_BESIDE_PEERS},
    {"set": "log", "events": 300_000, "engine": True},
    {"set": "log", "events": 1_000_000, "beside_appends": True},  # it has more events than that afterwards
)


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        connection = Connection(port, "application/json")
        self.ask, self.talk = connection.ask, connection.talk

    def good(self, method: str, path: str, body: bytes | None = None) -> Any:
        status, said = self.ask(method, path, body)
        if status not in range(200, 300):
            raise BenchError(f"{method} {path}: {status} {said[:300]!r}")
        return json.loads(said) if said else None

    def search(self, asked: Any) -> tuple[int, Any]:
        status, said = self.ask("POST", f"{STREAM}/_search", orjson.dumps(asked))
        return status, orjson.loads(said)


class Drawn:
    """The events of a run, batch by batch, the same ones each time; `sample` has some of those that went by."""

    def __init__(self, kind: str, count: int) -> None:
        self._source, self._count = SETS[kind](), count
        self.sample: list[dict[str, Any]] = []

    def bodies(self) -> Iterator[bytes]:
        for first in range(0, self._count, BATCH_EVENTS):
            body = self._source.batch(min(BATCH_EVENTS, self._count - first))
            at = -first % SAMPLE
            if at < BATCH_EVENTS:
                self.sample += orjson.loads(body)[at::SAMPLE]
            yield body

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        for body in self.bodies():
            yield orjson.loads(body)


def fill(client: Client, kind: str, bodies: Iterable[bytes]) -> None:
    """Declare and append."""
    client.good("PUT", STREAM)
    client.good("POST", f"{STREAM}/_schema", orjson.dumps(declared(kind)))
    for body in bodies:
        while True:
            status, said = client.ask("POST", STREAM, body)
            if status not in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
                break
            time.sleep(LOOK_S)
        if status not in range(200, 300):
            raise BenchError(f"append: {status} {said[:300]!r}")


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
        status, view = client.search({"q": "zzz", "size": 1})
        if whole and all(whole) and status == HTTPStatus.OK and view["coverage"]["complete"]:
            return time.monotonic() - began
        time.sleep(LOOK_S)
    raise BenchError(f"not complete within {COMPLETE_S:.0f} s")


def asks(question: Question, *, is_new: bool) -> Talk[list[str] | None]:
    """Asked over HTTP. Answers are read as far as needed: what they show only if nobody has looked at it."""
    found, after = list[str](), None
    for _ in range(question.pages):
        status, said = yield _request(question, after)
        if question.route == READ:
            return [] if status == HTTPStatus.OK and len(said) > READ_BYTES // 2 else None
        if status == HTTPStatus.OK and _COMPLETE in said and not is_new and question.pages == 1:
            return []
        view = orjson.loads(said)
        if status != HTTPStatus.OK or not _complete(view):
            return None
        found += _shown(question, view) if is_new else ()
        after = view.get("next_after" if question.route == ROUTING_KEYS else "next_search_after")
        if after is None:
            break
    return found


def _request(question: Question, after: Any) -> Request:
    if question.route == READ:
        return Request("GET", f"{STREAM}?{urlencode(question.asked)}")
    if question.route == ROUTING_KEYS:
        more = "" if after is None else f"&after={quote(after, safe='')}"
        return Request("GET", f"{STREAM}/{ROUTING_KEYS}?limit={question.asked['limit']}{more}")
    asked = question.asked if question.route == AGGREGATE else {**question.asked, "search_after": after}
    return Request("POST", f"{STREAM}/{question.route}", orjson.dumps(asked))


def _complete(view: Any) -> bool:
    return bool(view["coverage"]["complete"])


def _shown(question: Question, view: Any) -> list[str]:
    if question.route == ROUTING_KEYS:
        return list(view["keys"])
    if question.adhoc:
        return [str(bucket["count"]) for bucket in view["aggs"]["hours"]["buckets"]]
    if question.route == AGGREGATE:
        return [
            orjson.dumps([bucket["start"], group["key"], group["measures"]["events"]]).decode()
            for bucket in view["buckets"]
            for group in bucket["groups"]
        ]
    return [next(hit["source"][name] for name in IDS if name in hit["source"]) for hit in view["hits"]]


def ours(more: str = "--index-due-bytes 0 --index-due-ms 0") -> ServerSpec:
    program = shlex.quote(str(Path(sys.executable).with_name("streams-node")))
    return specs(("ours",), f"{program} serve --no-auth --data {{data}} --port {{port}} {more}")[0]


@contextmanager
def filled(options: argparse.Namespace, spec: ServerSpec, folder: Path) -> Iterator[tuple[Server, list[Any]]]:
    """A server with all events, indexed, and some of them."""
    drawn = Drawn(options.set, options.events)
    place = folder / f"{spec.name}-{options.set}-{options.events}"
    server, mark = Server(spec, place), place / "filled"
    try:
        server.start()
        client = Client(server.port)
        if not mark.exists():
            fill(client, options.set, drawn.bodies())
        began = time.monotonic()
        seconds = until_complete(client, nudge=not spec.ours)
        print(f"{spec.title}: indexed {seconds:.0f} s after the last append", file=sys.stderr)
        mark.touch()
        server.wait_until_quiet(30 if time.monotonic() - began > 1 else 0)
        yield server, sampled(options, folder, drawn)
    except BenchError:
        print(server.last_words(), file=sys.stderr)
        raise
    finally:
        server.stop()
        if not (options.kept and spec.ours):
            shutil.rmtree(place, ignore_errors=True)


def run(options: argparse.Namespace, folder: Path) -> Iterator[Cell]:
    """All sides are filled first. Then one after another is asked, and nothing of the others runs meanwhile."""
    with ExitStack() as stack:
        servers, sides = dict[str, Server](), list[Side]()
        for name in options.sides:
            if name == TANTIVY:
                sides.append(_alone(options, folder))
                continue
            spec = ours() if name == "ours" else in_folder(specs((name,), "x")[0])
            servers[name], sample = stack.enter_context(filled(options, spec, folder))
            asked = questions(options.set, sample)
            if not spec.ours:
                asked = {each: some for each, some in asked.items() if not some[0].adhoc and some[0].route != READ}
            server = servers[name]
            server.freeze()
            sides.append(Side(name, asked, over_http(server.port, asks), server.awake))
        if options.fill_only:
            return
        about = options.set, options.events
        yield from in_turns(*about, sides, options.turns, options.rounds, options.cell_seconds)
        for side in sides:
            if side.name in servers:
                with side.awake():
                    yield from forgetful((*about, side.name), servers[side.name], side.asked, options.cold_rounds)


def _alone(options: argparse.Namespace, folder: Path) -> Side:
    drawn = Drawn(options.set, options.events)
    bare = Bare(options.set, drawn.batches(), folder / f"bare-{options.set}-{options.events}")
    asked = questions(options.set, sampled(options, folder, drawn))
    asked = {each: some for each, some in asked.items() if bare.answers(some[0])}
    return Side(TANTIVY, asked, in_threads(lambda: bare.ask), nullcontext)


def sampled(options: argparse.Namespace, folder: Path, drawn: Drawn) -> list[dict[str, Any]]:
    """Some of the events; drawn again where neither this run nor one before has come by them."""
    path = folder / f"sample-{options.set}-{options.events}.json"
    if path.exists():
        return orjson.loads(path.read_bytes())  # type: ignore[no-any-return]
    if not drawn.sample:
        for _ in drawn.bodies():
            pass
    path.write_bytes(orjson.dumps(drawn.sample))
    return drawn.sample


def in_folder(spec: ServerSpec) -> ServerSpec:
    """The other server, with what it has sealed in files rather than in its memory, and room for copies of it."""
    set_by = spec.environment

    def environment(data: Path, port: int) -> dict[str, str]:
        spilled = {"DS_MOCK_R2_MAX_INMEM_BYTES": "1", "DS_MOCK_R2_SPILL_DIR": str(data / "objects")}
        return {**set_by(data, port), **spilled, "DS_SEGMENT_CACHE_MAX_BYTES": str(4 << 30)}

    return replace(spec, environment=environment)


def empty(server: Server) -> None:
    """Take away what a server has copied of its store, and have the system forget its files; it goes on."""
    shutil.rmtree(server.data / "cache", ignore_errors=True)
    drop_pages(server.data)


def begin_again(server: Server) -> None:
    server.stop()
    empty(server)
    server.start()


def forgetful(
    about: tuple[str, int, str], server: Server, asked: Mapping[str, Sequence[Question]], rounds: int
) -> Iterator[Cell]:
    """The first question of a server that has forgotten what it had of its store.

    The other server cannot be started again without losing its store, of which it has the list in its memory.
    """
    for state, forget in ((EMPTIED, empty), (COLD, begin_again)):
        if state == COLD and not server.spec.ours:
            return
        for name, some in asked.items() if rounds else ():
            seconds, failed, same = list[float](), 0, dict[str, str]()
            for number, question in enumerate(some[:rounds]):
                forget(server)
                client = Client(server.port)
                began = time.perf_counter()
                found = client.talk(asks(question._replace(pages=1), is_new=question.ordered))
                seconds.append(time.perf_counter() - began)
                failed += found is None
                if found is not None and question.ordered and question.pages == 1:
                    same[str(number)] = digest(found)
            yield cell(about, name, state, 1, [seconds], failed, same)


def run_beside_appends(options: argparse.Namespace, folder: Path) -> Iterator[search_report.Line]:
    """The history is indexed at once; what is appended later, as the node does it by default."""
    from ops.bench import search_fresh  # noqa: PLC0415 - it uses what is here

    with filled(options, ours(), folder) as (first, sample):
        first.stop()
        again = Server(ours(""), folder / "again", first.data)
        try:
            again.start()
            yield from search_fresh.lines(again.port, options.set, sample)
        finally:
            again.stop()
            if options.kept:
                (folder / f"ours-{options.set}-{options.events}" / "filled").unlink()  # it has more events now


def run_engine(options: argparse.Namespace, folder: Path) -> Iterator[search_report.Line]:
    from ops.bench import search_engine  # noqa: PLC0415 - not for others

    drawn = Drawn(options.set, options.events)
    bare = Bare(options.set, drawn.batches(), folder / f"bare-{options.set}-{options.events}")
    yield from search_engine.lines(bare, options.set, options.events, sampled(options, folder, drawn))


def measure(options: argparse.Namespace, folder: Path, report: search_report.Report) -> None:
    """What is measured is kept at once: a run may be ended before it is through."""
    stamp = machine.stamp(folder, "tantivy", "pyarrow")
    if options.beside_appends or options.engine:
        for line in (run_engine if options.engine else run_beside_appends)(options, folder):
            report.add_line(line)
            report.write(options.out, stamp)
            print(f"{line.name}: {line.said}", flush=True)
        return
    head = ("query", "side", "clients", "state", "p50 ms", "p95 ms", "p99 ms", "asked", "not 200", "p50s")
    print(f"| {' | '.join(head)} |\n| {' | '.join(['---'] * len(head))} |", flush=True)
    for each in run(options, folder):
        report.add(each)
        report.write(options.out, stamp)
        row = (each.query, each.side, each.clients, each.state, *each[6:11], " ".join(map(str, each.p50s_ms)))
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    print(f"\n{stamp}")


def _options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.search", description="What searches take.")
    parser.add_argument("--set", choices=sorted(SETS), default="log", help="what is searched")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--all", action="store_true", help="all that SEARCH.md shows, and nothing of before")
    parser.add_argument("--turns", type=int, default=5, help="of each side, for each cell")
    parser.add_argument("--rounds", type=int, default=40, help="questions of a kind, of each number of clients")
    parser.add_argument("--cell-seconds", type=float, default=SECONDS_A_CELL, help="at most, for a turn")
    parser.add_argument("--cold-rounds", type=int, default=3, help="times that caches are emptied, for each kind")
    parser.add_argument("--peers", action="store_true", help="@prisma/streams-server, too, as it comes and tuned")
    parser.add_argument("--sides", help=f"of ours, prisma, prisma-tuned, {TANTIVY}; by commas")
    parser.add_argument("--fill-only", action="store_true", help="have this node's data made and kept")
    parser.add_argument("--beside-appends", action="store_true", help="what appends do to searches, instead")
    parser.add_argument("--engine", action="store_true", help="processor time of pages without HTTP, instead")
    parser.add_argument("--out", type=Path, help="a folder for search.json and SEARCH.md")
    parser.add_argument("--kept", type=Path, help="a folder for data that later runs use again")
    parser.add_argument("--work-dir", type=Path, help="on a disk; a temporary folder of it is used")
    options = parser.parse_args(argv)
    peers_too = ["prisma", "prisma-tuned"] if options.peers else []
    options.sides = options.sides.split(",") if options.sides else ["ours", *peers_too, TANTIVY]
    return options


def main() -> int:

    options = _options()
    machine.ensure_linux()
    parts = [argparse.Namespace(**(vars(options) | each)) for each in (ALL if options.all else ({},))]
    if any(name.startswith("prisma") for part in parts for name in part.sides):
        peers.ensure_installed()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as name:
        folder = options.kept or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        report = search_report.Report.read(None if options.all else options.out)
        for part in parts:
            measure(part, folder, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
