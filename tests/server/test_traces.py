"""Spans for OpenTelemetry: none unless asked for; where its packages are missing, a node says so and does not start."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from streams_node.observe import traces
from streams_node.testing.inprocess import in_process
from tests.http.wire import ask
from tests.indexing.world import append, create, on_loop

A = "/v1/stream/a"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded:
    """Stands in for what the node uses of OpenTelemetry."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.closed = False

    def add_span_processor(self, _: object) -> None: ...

    def get_tracer(self, *_: str) -> "Recorded":
        return self

    def extract(self, carrier: dict[str, str]) -> dict[str, str]:
        return carrier

    def start_span(self, name: str, **given: Any) -> Any:
        span = {"name": name, **given}
        self.spans.append(span)
        return SimpleNamespace(
            set_status=lambda status: span.update(status=status), end=lambda end_time: span.update(end_time=end_time)
        )

    def shutdown(self) -> None:
        self.closed = True


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = Recorded()
    modules: dict[str, dict[str, Any]] = {
        "trace": {"SpanKind": SimpleNamespace(SERVER="server"), "StatusCode": SimpleNamespace(ERROR="error")},
        "trace.propagation.tracecontext": {"TraceContextTextMapPropagator": lambda: found},
        "sdk.trace": {"TracerProvider": lambda **_: found},
        "sdk.trace.export": {"BatchSpanProcessor": lambda exporter: exporter},
        "sdk.resources": {"Resource": SimpleNamespace(create=dict)},
        "exporter.otlp.proto.http.trace_exporter": {"OTLPSpanExporter": object},
    }
    for name, members in modules.items():
        module = ModuleType(f"opentelemetry.{name}")
        module.__dict__.update(members)
        parts = module.__name__.split(".")
        for at in range(1, len(parts)):
            parent = ".".join(parts[:at])
            if parent not in sys.modules:
                monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return found


def test_spans_that_cannot_be_sent_are_a_reason_not_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # as if nobody had installed it
    with pytest.raises(traces.TracesMissing, match="opentelemetry-sdk"):
        traces.spans()

    @on_loop
    async def start() -> None:
        async with in_process(tmp_path, otel_traces=True):
            pass

    with pytest.raises(traces.TracesMissing):
        start()


@on_loop
async def test_a_node_that_is_not_told_to_imports_nothing(tmp_path: Path) -> None:
    async with in_process(tmp_path) as node:
        assert node.context.spans is None
        assert (await ask(node, "GET", "/health")).status == 200
    assert not any(name.startswith("opentelemetry") for name in sys.modules)


def test_each_followed_request_is_a_span(tmp_path: Path, recorded: Recorded) -> None:
    @on_loop
    async def scenario() -> None:
        async with in_process(tmp_path, otel_traces=True) as node:
            await create(node, A, declared=None)
            await append(node, A, [1])
            assert recorded.spans == []  # writes are the commit's
            headers = {"x-request-id": "mine", "traceparent": PARENT}
            assert (await ask(node, "GET", A, headers)).status == 200
            assert (await ask(node, "GET", "/v1/stream/none")).status == 404
            assert not recorded.closed

    scenario()
    read, missing = recorded.spans
    assert (read["name"], read["context"], read["kind"]) == ("GET stream.read", {"traceparent": PARENT}, "server")
    said = read["attributes"]
    assert said.pop("streams.db_ms") >= 0
    assert said == {
        "http.request.method": "GET", "http.response.status_code": 200, "http.route": "stream.read",
        "streams.stream": "_default/a", "streams.request_id": "mine",
    }  # fmt: skip
    assert read["start_time"] <= read["end_time"]
    assert "status" not in missing
    assert missing["attributes"]["http.response.status_code"] == 404
    assert recorded.closed
