"""What the handlers of the hot routes share: built once by the composition root."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from streams_node.config import Settings
from streams_node.details import Watches
from streams_node.http.bodies import Bodies
from streams_node.http.connections import Connections
from streams_node.http.pressure import Pressure
from streams_node.http.tiers import NoTiers, Tiers
from streams_node.ingest.ledger import Ledger
from streams_node.live.registry import Live
from streams_node.observe.busy import Busiest
from streams_node.observe.metrics import Metrics
from streams_node.observe.traces import Spans, spans
from streams_node.observe.vitals import Vitals
from streams_node.searching import Searches
from streams_node.searching.aggregates import Aggregates
from streams_node.subscriptions import Subscriptions
from streams_node.wal.database import Database


@dataclass(slots=True)
class Context:
    settings: Settings
    database: Database
    ledger: Ledger
    live: Live
    metrics: Metrics
    bodies: Bodies
    connections: Connections
    now_s: Callable[[], float]
    jitter: Callable[[], float]
    subscriptions: Subscriptions
    details: Watches
    busy_appends: Busiest
    busy_reads: Busiest = field(default_factory=lambda: Busiest(time.monotonic))
    tiers: Tiers = field(default_factory=NoTiers)
    searches: Searches = field(init=False)
    aggregates: Aggregates = field(init=False)
    vitals: Vitals = field(init=False)
    spans: Spans | None = field(init=False)

    def __post_init__(self) -> None:
        self.spans = spans() if self.settings.otel_traces else None
        self.searches = Searches(self.database, self.settings)
        self.searches.observed_by(self.metrics.search_seconds.observe)
        self.vitals = Vitals(self.settings.memory_limit_bytes, self.ledger.now_us, time.monotonic)
        self.vitals.listeners.append(Pressure(self).changed)
        scan, kept = self.settings.search_scan_bytes_max, self.settings.search_rollups_bytes_max
        self.aggregates = Aggregates(self.database, self.searches, scan, kept)
