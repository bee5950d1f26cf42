"""The published TypeScript client against a real node."""

import re
from itertools import count

import httpx
import pytest

from tests.clients.conftest import HERE, Node, Scenarios

LIVE = pytest.mark.parametrize("live", ["long-poll", "sse"])


@pytest.mark.parametrize(
    "scenario",
    ["json", "bytes", "text", "lifetime", "sequence", "closing", "producer", "producerRetry", "producerFencing"],
)
def test_scenario(node: Node, typescript: Scenarios, scenario: str) -> None:
    typescript(scenario, node.stream(scenario)).passes()


@LIVE
@pytest.mark.parametrize("scenario", ["tail", "tailBytes", "tailFromNow"])
def test_live_scenario(node: Node, typescript: Scenarios, scenario: str, live: str) -> None:
    typescript(scenario, node.stream(scenario), live).passes()


def test_every_scenario_is_run_by_a_test() -> None:
    exported = set(re.findall(r"^export async function (\w+)", (HERE / "scenarios.mjs").read_text(), re.MULTILINE))
    tests = (HERE / "test_typescript.py").read_text()
    assert {name for name in exported if f'"{name}"' not in tests} == set()


def test_a_saved_offset_is_good_after_a_restart(own_node: Node, typescript: Scenarios) -> None:
    url = own_node.stream()
    send(url, "PUT", [1, 2, 3])
    first = typescript("catchUp", url, "-1").says()
    assert isinstance(first, dict)
    assert first["items"] == [1, 2, 3]
    own_node.stop()
    own_node.start()
    send(url, "POST", [4])
    again = typescript("catchUp", url, first["offset"]).says()
    assert isinstance(again, dict)
    assert again["items"] == [4]


@LIVE
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_live_tail_goes_on_after_a_restart(own_node: Node, typescript: Scenarios, live: str, end: str) -> None:
    url = own_node.stream()
    send(url, "PUT", [])
    reader = typescript("tailAcrossRestart", url, live)
    numbers = count()
    for _ in range(3):
        send(url, "POST", [next(numbers), next(numbers)])
    said = reader.says()
    while said != 6:
        said = reader.says()
    getattr(own_node, end)()
    own_node.start()
    for _ in range(3):
        send(url, "POST", [next(numbers)])
    send(url, "POST", None)
    while isinstance(said, int):
        said = reader.says()
    assert said == {"items": 9}
    reader.passes()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_producer_stores_each_entry_once_across_a_restart(own_node: Node, typescript: Scenarios, end: str) -> None:
    url = own_node.stream()
    send(url, "PUT", [])
    wanted = 300
    writer = typescript("producerAcrossRestart", url, str(wanted))
    while writer.says() != 100:
        pass
    getattr(own_node, end)()
    own_node.start()
    said = writer.says()
    while isinstance(said, int):
        said = writer.says()
    assert isinstance(said, dict)
    assert said["failures"] > 0, "the restart was too quick for the test to mean anything"
    writer.passes()
    stored = httpx.get(url, params={"offset": "-1"})
    assert stored.json() == list(range(wanted))
    assert stored.headers["stream-closed"] == "true"


def send(url: str, method: str, entries: list[int] | None) -> None:
    """Create with entries, append entries, or close when there are none to send."""
    headers = {"Stream-Closed": "true"} if entries is None else None
    httpx.request(method, url, headers=headers, json=entries).raise_for_status()
