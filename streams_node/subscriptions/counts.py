"""What is counted about subscriptions, and how it is shown."""

from dataclasses import dataclass, field
from functools import partial

from streams_node.observe.metrics import Metrics
from streams_node.subscriptions.registry import Registry

CALL_RESULTS = ("done", "taken", "failed")


@dataclass(slots=True)
class Counts:
    wakes: int = 0
    claims: int = 0
    acks: int = 0
    fenced: int = 0
    leases_over: int = 0
    under_way: int = 0
    calls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CALL_RESULTS, 0))

    def register(self, metrics: Metrics, registry: Registry) -> None:
        """The numbers, read when a scrape asks."""
        gauge, counter = metrics.gauge, metrics.counter
        gauge("streams_subscriptions", lambda: len(registry), "subscriptions")
        gauge(
            "streams_subscriptions_failing",
            lambda: sum(each.wake.failing for each in registry),
            "webhook subscriptions that wait to call again after a failure",
        )
        gauge(
            "streams_subscription_news",
            lambda: sum(len(each.pending) for each in registry),
            "streams with news for subscriptions, as far as memory holds them",
        )
        gauge("streams_webhook_calls_under_way", lambda: self.under_way, "webhooks being called")
        counter("streams_subscription_wakes", lambda: self.wakes, "wakes begun")
        counter("streams_subscription_claims", lambda: self.claims, "wakes claimed by workers")
        counter("streams_subscription_acks", lambda: self.acks, "acknowledgements of streams stored")
        counter("streams_subscription_fenced", lambda: self.fenced, "requests of holders of earlier wakes")
        counter("streams_subscription_leases_over", lambda: self.leases_over, "leases that ended by their time")
        for result in CALL_RESULTS:
            counter(
                "streams_webhook_calls",
                partial(self.calls.__getitem__, result),
                "webhooks called: done at once, taken, or failed",
                labels={"result": result},
            )
