"""A node with the driver that it starts beside itself, a stream of log events, and what a scan of these answers."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.clients.conftest import Node, started

PATIENCE_S = 150.0
JSON = {"content-type": "application/json"}
EAGER = (
    "--no-auth", "--index-due-bytes", "0", "--index-due-ms", "0", "--index-stream-entries", "1",
    "--index-lease-ms", "5000", "--object-grace-ms", "0", "--orphan-grace-ms", "1000",
    "--publish-metadata-ms", "1000",
)  # fmt: skip
FAMILIES = 4
PATH = "/v1/stream/shop/logs"


def declared(*, field_of_user: str = "user", more: tuple[str, ...] = ()) -> dict[str, Any]:
    def named(name: str, kind: str, **about: Any) -> dict[str, Any]:
        return {"kind": kind, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}], **about}

    fields = {name: named(name, "keyword", exact=True) for name in ("level", "user", *more)}
    fields |= {
        "took": named("took", "integer", exact=True, column=True),
        "at": named("at", "date", column=True),
        "message": named("message", "text", analyzer="unicode_word_v1", positions=True),
    }
    rollup = {
        "timestampField": "at", "dimensions": ["level"], "intervals": ["1m"], "measures": {"n": {"kind": "count"}},
    }  # fmt: skip
    search = {"primaryTimestampField": "at", "fields": fields, "rollups": {"minutes": rollup}}
    key = {"jsonPointer": f"/{field_of_user}", "required": False}
    return {"schema": {"type": "object"}, "routingKey": key, "search": search}


def event(number: int) -> dict[str, Any]:
    return {
        "user": f"user-{number % 37}", "level": ("info", "warn", "error")[number % 3], "took": number % 900,
        "at": f"2026-11-18T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:00Z", "trace": f"t{number:06d}",
        "message": f"request {number} of the day took its time, " + "as so many of them have done before " * 8,
    }  # fmt: skip


@dataclass
class Whole:
    """A node, and all that was appended to one stream of it."""

    node: Node
    path: str = PATH
    entries: list[Any] = field(default_factory=list)

    @property
    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.node.url, timeout=30, trust_env=False)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self.http as http:
            answer = http.request(method, path, **more)
        assert answer.is_success, (method, path, answer.status_code, answer.text[:500])
        return answer

    def create(self, declaration: dict[str, Any]) -> None:
        self.ask("PUT", self.path, headers=JSON)
        self.ask("POST", f"{self.path}/_schema", json=declaration)

    def append(self, entries: list[Any]) -> None:
        for first in range(0, len(entries), 1000):
            self.ask("POST", self.path, content=json.dumps(entries[first : first + 1000]), headers=JSON)
        self.entries += entries

    def flush(self) -> None:
        self.until(lambda: self.ask("POST", f"{self.path}/_flush").status_code != 202, "flushed")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"{self.path}/_index_status").json()
        return found

    def is_covered(self) -> bool:
        return all(each["fully_indexed_uploaded_segments"] for each in families_of(self.status()))

    def overview(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "/v1/server/_index").json()
        return found

    def covered(self) -> None:
        self.until(self.is_covered, "everything is covered")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < ends, f"not within {PATIENCE_S:.0f} s: {what}"
            time.sleep(0.05)

    def read(self, **selection: str) -> list[Any]:
        """All pages."""
        found, offset = list[Any](), "-1"
        while True:
            answer = self.ask("GET", self.path, params={"offset": offset, **selection})
            found += answer.json()
            offset = answer.headers["stream-next-offset"]
            if "stream-up-to-date" in answer.headers:
                return found

    def keys(self) -> tuple[list[str], bool]:
        """All of them, and whether the last page knew all that is sealed by its indexes."""
        found, after = list[str](), dict[str, str]()
        while True:
            page = self.ask("GET", f"{self.path}/_routing_keys", params={"limit": "20", **after}).json()
            found += page["keys"]
            if page["next_after"] is None:
                return found, page["coverage"]["complete"]
            after = {"after": page["next_after"]}

    def check(self) -> None:
        """Answers are those that a scan of what was appended gives."""
        users = sorted({entry["user"] for entry in self.entries}, key=str.encode)
        assert self.keys() == (users, True)
        for user in ("user-3", "nobody"):
            assert self.read(key=user) == [entry for entry in self.entries if entry["user"] == user]
        wanted = [entry for entry in self.entries if entry["level"] == "error" and entry["took"] == 5]
        assert self.read(filter="level:error took:5") == wanted

    def covers(self) -> dict[str, list[tuple[int, int]]]:
        """Of each family what the node's database says, in order: no entry is covered twice."""
        spans: dict[str, list[tuple[int, int]]] = {}
        for family, first, end in self.rows(
            "SELECT c.family, c.first_seq, c.end_seq FROM index_covers AS c JOIN streams AS s ON s.id = c.stream "
            "WHERE s.name = ? ORDER BY c.family, c.config, c.first_seq",
            self.path.rpartition("/")[2],
        ):
            spans.setdefault(family, []).append((first, end))
        return spans

    def rows(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """Of the node's database, while it runs."""
        with closing(sqlite3.connect(f"file:{self.node.folder / 'data' / 'streams.db'}?mode=ro", uri=True)) as db:
            return db.execute(statement, values).fetchall()

    def covered_once(self) -> None:
        """Every entry is covered once by each family."""
        found = self.covers()
        assert len(found) == FAMILIES
        for family, spans in found.items():
            at = 0
            for first, end in spans:
                assert first == at, (family, spans)
                at = end
            assert at == len(self.entries), (family, spans)

    def told(self) -> None:
        """The catalogue in the bucket knows all of it."""
        self.until(lambda: not self.rows("SELECT 1 FROM index_untold UNION ALL SELECT 1 FROM unpublished"), "told")

    def indexes(self) -> list[Path]:
        """Of the stream; metrics are of the node's own."""
        found = (self.node.folder / "objects" / "index").rglob("*")
        return [path for path in found if path.is_file() and path.parent.name != "metrics"]


def families_of(status: dict[str, Any]) -> list[dict[str, Any]]:
    keys = [status["routing_key_index"], status["routing_key_lexicon"]]
    return [*keys, *status["exact_indexes"], *status["search_families"]]


@contextmanager
def whole(folder: Path, *options: str) -> Iterator[Whole]:
    with started(folder, *EAGER, "--object-store-folder", str(folder / "objects"), *options) as node:
        yield Whole(node)


# --- processes ------------------------------------------------------------------------------------------------------


def below(folder: Path) -> dict[int, str]:
    """Processes of a node's drivers, by its folder of temporary files: their ids and what they are."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}".encode() in (place / "environ").read_bytes():
                command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(place.name)] = kind_of(command)
        except OSError:
            continue
    return found


def kind_of(command: str) -> str:
    if "/java " in command:
        return "java"
    if "pyspark.daemon" in command:
        return "worker"
    return "driver" if "-m spark_index" in command else command[:60]


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
