"""Any body for a profile, and any entry for a stream that has one: refused or taken, never a fault of the node."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_node.profiles import KINDS
from streams_node.testing.inprocess import InProcess, in_process
from tests.profiles.entries import evlog_entries, values, words
from tests.profiles.test_documents import REFUSED

JSON = {"content-type": "application/json"}
BODIES = 100  # an example: with 25 of them, 2500
ENTRIES = 40
configs = st.fixed_dictionaries(
    {"kind": st.one_of(st.sampled_from(KINDS), values)},
    optional={
        "redactKeys": st.one_of(values, st.lists(words, max_size=70)),
        "correlation": st.one_of(
            values,
            st.dictionaries(
                st.sampled_from(["requestIdFields", "traceContextFields", "parseTraceparent"]),
                st.one_of(values, st.lists(words, max_size=4), st.booleans()),
            ),
        ),
        "observability": st.one_of(values, st.fixed_dictionaries({"request": values})),
        "touch": values,
    },
)
documents = st.one_of(
    values,
    st.fixed_dictionaries({"profile": st.one_of(configs, values)}, optional={"apiVersion": words, "more": values}),
)
bodies = st.one_of(
    documents.map(lambda value: json.dumps(value).encode()),
    documents.map(lambda value: json.dumps(value, ensure_ascii=False).encode()[:-1]),
    st.binary(max_size=40),
    st.sampled_from([body for body, _ in REFUSED]),
)
many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=10)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Sends a batch of bodies to a node that lives as long as the module; returns the answers."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        node: InProcess = runner.run(stack.enter_async_context(in_process(tmp_path_factory.mktemp("node"))))

        def ask(method: str, path: str, batch: list[bytes]) -> list[tuple[int, Any]]:
            async def send() -> list[tuple[int, Any]]:
                answers = [await node.request(method, path, JSON, body) for body in batch]
                return [(answer.status, json.loads(answer.body or b"null")) for answer in answers]

            return runner.run(send())

        yield ask
        runner.run(stack.aclose())


@many
@given(st.lists(bodies, min_size=BODIES, max_size=BODIES))
def test_any_profile_is_set_or_refused_whole(asked: Any, batch: list[bytes]) -> None:
    asked("DELETE", "/v1/stream/f", [b""])
    asked("PUT", "/v1/stream/f", [b""])
    for body in batch:
        ((status, said),) = asked("POST", "/v1/stream/f/_profile", [body])
        assert status in {200, 400, 501}, (status, said, body)
        if status == 200:
            ((_, profile),) = asked("GET", "/v1/stream/f/_profile", [b""])
            ((_, registry),) = asked("GET", "/v1/stream/f/_schema", [b""])
            assert profile == said
            kind = said["profile"]["kind"]
            assert kind == "generic" or registry["search"]["profile"] == kind


@some
@pytest.mark.parametrize("kind", ["evlog", "metrics"])
@given(st.lists(st.one_of(evlog_entries, values, configs), min_size=ENTRIES, max_size=ENTRIES))
def test_any_entry_is_stored_or_refused(asked: Any, kind: str, entries: list[Any]) -> None:
    path = f"/v1/stream/{kind}"
    asked("PUT", path, [b""])
    asked("POST", f"{path}/_profile", [json.dumps({"profile": {"kind": kind}}).encode()])
    full = {"metric": "m", "unit": "u", "windowStart": 1, "windowEnd": 2, "count": 1, "sum": 1}
    for entry in entries:
        if kind == "metrics" and isinstance(entry, dict):
            entry.update(full)
        ((status, said),) = asked("POST", path, [json.dumps([entry]).encode()])
        assert status in {204, 400}, (status, said, entry)
