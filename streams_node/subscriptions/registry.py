"""The subscriptions of a node, and which of them a stream is for."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

from streams_node.subscriptions.patterns import Trie, fits
from streams_node.subscriptions.subscription import Subscription
from streams_node.wal.lookup import Name

_LONG_MAX = 1000  # streams that take long to match and are remembered


class Registry:
    """All in memory: they are bounded in number. Streams in which wakes are announced match no glob, or a subscription
    to everything would wake itself for ever.
    """

    def __init__(self) -> None:
        self._trie = Trie[Subscription]()
        self._by_id: dict[str, Subscription] = {}
        self._by_number: dict[int, Subscription] = {}
        self._wake_streams: Counter[Name] = Counter()
        self._long: dict[Name, set[Subscription]] = {}  # what was found for them
        self.version = 0  # counts the changes of which subscriptions a stream is for
        self.heard: Callable[[], None] = lambda: None  # of each of them, by whoever shows that

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._by_id.values()))

    def get(self, id_: str) -> Subscription | None:
        return self._by_id.get(id_)

    def numbered(self, number: int) -> Subscription | None:
        return self._by_number.get(number)

    def add(self, subscription: Subscription) -> None:
        self._by_id[subscription.id] = subscription
        self._by_number[subscription.number] = subscription
        if subscription.segments is not None:
            self._trie.add(subscription.segments, subscription)
        if subscription.wake_stream is not None:
            self._wake_streams[subscription.wake_stream] += 1
        self._changed()

    def remove(self, subscription: Subscription) -> None:
        if self._by_number.pop(subscription.number, None) is None:
            return
        del self._by_id[subscription.id]
        if subscription.segments is not None:
            self._trie.remove(subscription.segments, subscription)
        for name in subscription.named:
            self._trie.unname(name, subscription)
        if subscription.wake_stream is not None:
            self._wake_streams[subscription.wake_stream] -= 1
            self._wake_streams += Counter()  # those at zero leave
        self._changed()

    def name(self, name: Name, subscription: Subscription) -> None:
        subscription.named.add(name)
        self._trie.name(name, subscription)
        self._changed()

    def unname(self, name: Name, subscription: Subscription) -> None:
        subscription.named.discard(name)
        self._trie.unname(name, subscription)
        self._changed()

    def matching(self, name: Name) -> set[Subscription] | None:
        """Who is to be told of a stream; None if `found` has to look for it."""
        if name in self._wake_streams:
            return self._trie.named(name)
        if name in self._long:
            return self._long[name]
        return self._trie.matching(name)

    async def found(self, name: Name) -> set[Subscription]:
        """Who is to be told of a stream, however long it takes: others have their turns meanwhile."""
        known = self.matching(name)
        if known is not None:
            return known
        found: set[Subscription] = set()
        version = self.version
        for _ in self._trie.slices(name, found):
            await asyncio.sleep(0)
        if self.version == version:
            if len(self._long) >= _LONG_MAX:
                self._long.clear()
            self._long[name] = found
        return found

    def _changed(self) -> None:
        self.version += 1
        self._long.clear()
        self.heard()

    def globbed(self, name: Name, subscription: Subscription) -> bool:
        """Whether a subscription's glob matches a stream."""
        pattern = subscription.segments
        return pattern is not None and name not in self._wake_streams and fits(pattern, name)
