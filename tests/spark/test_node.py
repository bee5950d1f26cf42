"""The driver with a real node: what is appended is covered, and found by what the indexes say."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typing_extensions import override

from spark_index.driver.client import Address, NodeClient
from spark_index.driver.logs import Log
from spark_index.driver.loop import Driver, Options
from spark_index.session import Session
from tests.clients.conftest import Node, started

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FIELDS = {
    "level": {"kind": "keyword", "bindings": [{"version": 1, "jsonPointer": "/level"}], "exact": True},
    "took": {"kind": "integer", "bindings": [{"version": 1, "jsonPointer": "/took"}], "column": True},
    "at": {"kind": "date", "bindings": [{"version": 1, "jsonPointer": "/at"}], "column": True},
    "message": {
        "kind": "text", "bindings": [{"version": 1, "jsonPointer": "/message"}], "analyzer": "unicode_word_v1",
        "positions": True,
    },
}  # fmt: skip
SEARCH = {
    "primaryTimestampField": "at",
    "fields": FIELDS,
    "rollups": {"minutes": {"timestampField": "at", "dimensions": ["level"], "intervals": ["1m"],
                            "measures": {"n": {"kind": "count"}}}},
}  # fmt: skip
DECLARED = {"schema": {"type": "object"}, "routingKey": {"jsonPointer": "/user", "required": False}, "search": SEARCH}
ENTRIES = 2400


class Lent(Session):
    def __init__(self, session: Session) -> None:
        super().__init__(session.master, Path())
        self._lent = session

    @override
    def run(self, work: Callable[[Any], Any], items: Any) -> list[Any]:
        return self._lent.run(work, items)

    @override
    def stop(self) -> None:
        """It stays."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with started(tmp_path, "--no-auth", "--index-driver", "off") as node:
        yield node


def event(number: int) -> dict[str, Any]:
    return {
        "user": f"user-{number % 37}", "level": ("info", "warn", "error")[number % 3], "took": number % 900,
        "at": f"2026-11-18T10:{number % 60:02d}:00Z", "message": f"request {number} of the day took its time",
    }  # fmt: skip


def test_what_is_sealed_is_covered_once_by_a_driver(session: Session, node: Node, tmp_path: Path) -> None:
    with httpx.Client(base_url=node.url, timeout=30, trust_env=False) as http:
        path = "/v1/stream/logs"
        assert http.put(path, headers={"content-type": "application/json"}).is_success
        assert (answer := http.post(f"{path}/_schema", json=DECLARED)).is_success, answer.text
        for first in range(0, ENTRIES, 400):
            assert http.post(path, json=[event(number) for number in range(first, first + 400)]).is_success
        while (answer := http.post(f"{path}/_flush")).status_code == 202:
            pass
        assert answer.is_success, answer.text
        assert committed(node, session, tmp_path / "log")
        seen = http.get("/v1/server/_index").json()
        assert (seen["due_entries"], seen["failed"], seen["claims"]) == (0, [], [])
        assert not committed(node, session, tmp_path / "log")
        keys, after = list[str](), dict[str, str]()
        while True:
            page = http.get(f"{path}/_routing_keys", params={"limit": 10, **after}).json()
            keys += page["keys"]
            if page.get("next_after") is None:
                break
            after = {"after": page["next_after"]}
        assert keys == sorted(f"user-{number}" for number in range(37))


def committed(node: Node, session: Session, path: Path) -> list[dict[str, Any]]:
    """What a driver commits until there is nothing to do."""
    client = NodeClient(Address(node.url))
    with path.open("wb") as file:
        Driver(client, Lent(session), Options("d", once=True), Log(file.fileno())).run()
    client.close()
    said = [json.loads(line) for line in path.read_text().splitlines()]
    assert not [line for line in said if line["level"] in {"error", "warning"}], said
    return [line for line in said if line["event"] == "committed" and line["objects"]]
