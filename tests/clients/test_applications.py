"""What the durable-streams project builds on its client, against a real node: state, documents, chats."""

import re

import pytest

from tests.clients.conftest import HERE, Node, Scenarios


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_databases_of_a_stream_agree_over_a_restart(own_node: Node, typescript: Scenarios, end: str) -> None:
    scenario = typescript("applications.state", own_node.stream())
    assert scenario.says() == "ready"
    getattr(own_node, end)()
    own_node.start()
    scenario.passes()


@pytest.mark.parametrize(("live", "end"), [("sse", "kill"), ("long-poll", "stop")])
def test_two_editors_of_a_document_converge_over_a_restart(
    own_node: Node, typescript: Scenarios, live: str, end: str
) -> None:
    scenario = typescript("applications.editors", own_node.stream(), live)
    assert scenario.says() == "ready"
    getattr(own_node, end)()
    own_node.start()
    scenario.passes()


def test_a_chat_has_the_whole_answer_over_a_reload_and_a_restart(own_node: Node, typescript: Scenarios) -> None:
    scenario = typescript("applications.chat", own_node.stream())
    assert scenario.says() == "half"
    own_node.stop()
    own_node.start()
    scenario.passes()


def test_every_application_is_run_by_a_test() -> None:
    exported = set(re.findall(r"^export async function (\w+)", (HERE / "applications.mjs").read_text(), re.MULTILINE))
    tests = (HERE / "test_applications.py").read_text()
    assert exported
    assert {name for name in exported if f'"applications.{name}"' not in tests} == set()
