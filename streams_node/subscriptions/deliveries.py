"""Calls webhooks with their wakes, each in a task of its own: one that does not answer holds up nobody else.

Owns     calls under way, and nothing that lasts.
Keeps    at most one call a wake and process; what became of it is stored before the next one.
Dies     during a call: the wake is not marked as delivered, so the next start calls again.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import quote, urlsplit

import msgspec

from streams_node.config import Settings
from streams_node.errors import StreamsError, WebhookRejected
from streams_node.observe.logs import get_logger
from streams_node.subscriptions.addresses import Policy, target_of
from streams_node.subscriptions.call import Answered, Caller, CallFailed
from streams_node.subscriptions.counts import Counts
from streams_node.subscriptions.desk import Desk
from streams_node.subscriptions.keys import Keys
from streams_node.subscriptions.lanes import Lanes
from streams_node.subscriptions.patterns import path_of
from streams_node.subscriptions.subscription import Subscription
from streams_node.subscriptions.wakes import Seen, Wake
from streams_node.testing.crashpoints import crash_point

log = get_logger(__name__)
_BACKOFF_S = 1.0


class WakeStream(msgspec.Struct):
    """A stream, as a wake tells of it."""

    path: str
    link_type: str
    acked_offset: str
    tail_offset: str
    has_pending: bool


class _Notice(msgspec.Struct):
    subscription_id: str
    wake_id: str
    generation: int
    streams: list[WakeStream]
    callback_url: str
    callback_token: str


class Deliveries:
    """Calls that are under way or wait for their place."""

    def __init__(
        self, settings: Settings, policy: Policy, keys: Keys, desk: Desk, counts: Counts, chance: Callable[[], float]
    ) -> None:
        self._timeout_ms = settings.webhook_ms_max
        self._policy = policy
        self._keys = keys
        self._desk = desk
        self._counts = counts
        self._chance = chance
        self._lanes = Lanes(
            parallel_max=settings.webhooks_parallel_max, per_second_max=settings.webhooks_per_second_max
        )
        self.caller = Caller(policy, threads=settings.webhooks_parallel_max)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, subscription: Subscription, after: Callable[[Subscription], None]) -> None:
        """Call a webhook when its turn comes, and record what came of it; then `after`."""
        subscription.queued = True
        task = asyncio.create_task(self._deliver(subscription, after), name=f"webhook-{subscription.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.caller.close()

    async def _deliver(self, subscription: Subscription, after: Callable[[Subscription], None]) -> None:
        wake: Wake | None = None
        try:
            async with self._lanes.place(origin_of(subscription.url or ""), failing=subscription.wake.failing):
                await self._lanes.pace(self._desk.appends_per_second)
                wake = await self._desk.wake_to_call(subscription)
                if wake is None:
                    return
                self._lanes.spend(len(wake.seen))
                result = await self._called(subscription, wake)
            crash_point("webhook.answered")
            self._counts.calls[result] += 1
            if result == "failed":
                await self._desk.failed(subscription, wake, self._chance())
            else:
                await self._desk.delivered(subscription, wake, done=result == "done")
        except StreamsError as problem:
            log.debug("what became of a webhook was not stored", subscription=subscription.id, error=problem.message)
            await asyncio.sleep(_BACKOFF_S)
        except Exception as problem:  # noqa: BLE001 - one webhook's trouble is its own
            log.warning("a webhook was not called", subscription=subscription.id, error=repr(problem))
            await asyncio.sleep(_BACKOFF_S)
        finally:
            if wake is None:
                subscription.queued = False
            elif subscription.calling == wake.generation:
                subscription.calling = 0
            if wake is not None or not subscription.wanting:  # otherwise it waits for the database: it is rung anyway
                after(subscription)

    async def _called(self, subscription: Subscription, wake: Wake) -> str:
        """`done`, `taken` or `failed`."""
        self._counts.under_way += 1
        try:
            target = target_of(subscription.url or "", self._policy)
            body = msgspec.json.encode(self._notice(subscription, wake))
            signature = self._keys.sign(body, self._desk.now_us())
            headers = (("Content-Type", "application/json"), ("Webhook-Signature", signature))
            timeout_s = min(self._timeout_ms, subscription.lease_ms) / 1000
            answered = await self.caller.call(target, headers, body, timeout_s)
        except (CallFailed, WebhookRejected) as problem:
            log.info("a webhook failed", subscription=subscription.id, attempt=wake.attempts + 1, error=str(problem))
            return "failed"
        finally:
            self._counts.under_way -= 1
        if not 200 <= answered.status < 300:  # noqa: PLR2004 - HTTP's own numbers
            log.info(
                "a webhook failed", subscription=subscription.id, attempt=wake.attempts + 1, status=answered.status
            )
            return "failed"
        return "done" if _says_done(answered) else "taken"

    def _notice(self, subscription: Subscription, wake: Wake) -> _Notice:
        return _Notice(
            subscription.id,
            wake.id or "",
            wake.generation,
            [stream_of(each) for each in wake.seen],
            f"{subscription.base}/v1/stream/__ds/subscriptions/{quote(subscription.id, safe='')}/callback",
            self._desk.token(subscription, wake),
        )


def origin_of(url: str) -> str:
    """Who is called, for sharing places: whatever the URL leads to, however it is written."""
    parts = urlsplit(url)
    return f"{(parts.hostname or '').removesuffix('.')}:{parts.port or (80 if parts.scheme == 'http' else 443)}"


def stream_of(seen: Seen) -> WakeStream:
    kind = "explicit" if seen.explicit else "glob"
    return WakeStream(path_of(seen.who), kind, seen.acked, seen.tail, seen.pending)


def _says_done(answered: Answered) -> bool:
    try:
        said = msgspec.json.decode(answered.body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("done") is True
