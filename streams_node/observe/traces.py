"""Spans of requests for OpenTelemetry: off unless asked for, and only where its packages are.

Keeps    nothing is imported, and no request costs anything, while it is off. Spans are handed on by the SDK's own
         thread; its own variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and others) say where to. What cannot be handed on is
         dropped by the SDK, and no request waits for it.
"""

import importlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from streams_node import __version__
from streams_node.observe.phases import Phases

_NS = 1_000_000_000
PACKAGES = "opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http"


class TracesMissing(Exception):
    """The packages are not there."""

    def __init__(self, missing: str) -> None:
        self.message = f"otel_traces needs the packages {PACKAGES}, of which `{missing}` cannot be imported"
        super().__init__(self.message)


class Answered(NamedTuple):
    """What a span says of a request."""

    method: str
    status: int
    request_id: str | None
    traceparent: str | None


class Spans(Protocol):
    def tell(self, phases: Phases, answered: Answered) -> None:
        """A request was answered just now."""

    def close(self) -> None:
        """Hand on what waits; it may take a moment."""


def spans() -> Spans:
    """Opened once a node."""
    return _Spans(_module("trace"), _module("sdk.trace"), _module("sdk.trace.export"), _module("sdk.resources"))


def _module(name: str) -> Any:
    full = f"opentelemetry.{name}"
    try:
        return importlib.import_module(full)
    except ImportError:
        raise TracesMissing(full) from None


class _Spans:
    def __init__(self, api: Any, sdk: Any, export: Any, resources: Any) -> None:
        self._api = api
        otlp = _module("exporter.otlp.proto.http.trace_exporter")
        self._propagator = _module("trace.propagation.tracecontext").TraceContextTextMapPropagator()
        resource = resources.Resource.create({"service.name": "streams-node", "service.version": __version__})
        self._provider = sdk.TracerProvider(resource=resource)
        self._provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("streams_node", __version__)

    def tell(self, phases: Phases, answered: Answered) -> None:
        ended_ns = time.time_ns()
        carrier = {} if answered.traceparent is None else {"traceparent": answered.traceparent}
        span = self._tracer.start_span(
            f"{answered.method} {phases.route}",
            context=self._propagator.extract(carrier),
            kind=self._api.SpanKind.SERVER,
            start_time=ended_ns - int(phases.total * _NS),
            attributes=attributes(phases, answered),
        )
        if answered.status >= 500:  # noqa: PLR2004 - the node's own faults
            span.set_status(self._api.StatusCode.ERROR)
        span.end(end_time=ended_ns)

    def close(self) -> None:
        self._provider.shutdown()


def attributes(phases: Phases, answered: Answered) -> Mapping[str, Any]:
    """Under the names of OpenTelemetry where it has some; times are milliseconds."""
    said: dict[str, Any] = {
        "http.request.method": answered.method,
        "http.response.status_code": answered.status,
        "http.route": phases.route,
    }
    if phases.stream is not None:
        said["streams.stream"] = phases.stream
    if answered.request_id is not None:
        said["streams.request_id"] = answered.request_id
    return said | {f"streams.{name}": value for name, value in phases.shown().items()}
