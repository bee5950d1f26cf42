"""The indexes among the tiers: the desk, its news, and the driver beside the node."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from indexers.messages import StoreAt
from streams_node.config import Settings
from streams_node.indexing.desk import Desk, Parts, Sealed
from streams_node.indexing.driver import TOKEN, Driver
from streams_node.observe.logs import get_logger
from streams_node.placement.made import Made
from streams_node.segments.directory import Directory

log = get_logger(__name__)
_TEND_S = 5.0


class Indexing:
    """Composed with the tiers; `begin` once the bucket is known to be this node's."""

    def __init__(self, parts: Parts, settings: Settings) -> None:
        self._settings = settings
        self.desk = Desk(parts)
        self.driver: Driver | None = None
        self._loop = asyncio.get_running_loop()
        self._listening: asyncio.Future[str] = self._loop.create_future()
        self._following = False
        self._news: set[asyncio.Task[None]] = set()

    def listening(self, url: str) -> None:
        """Where the operator's routes of this node are: a driver can be started."""
        if not self._listening.done():
            self._listening.set_result(url)

    async def run(self) -> None:
        """Tend the desk, and a driver if there is to be one."""
        settings = self._settings
        if settings.index_driver == "off" or settings.object_store == "memory":
            await self._tend()
        url = await self._listening
        self.driver = Driver(self.desk, url, secrets_of(settings))
        await self.driver.run()

    async def stop(self) -> None:
        for task in self._news:
            task.cancel()
        await asyncio.gather(*self._news, return_exceptions=True)

    def published(self, objects: list[Made]) -> None:
        """A generation names these objects now."""
        if self.desk.planned:
            self._soon(self._tell(objects), "index-news")

    def declared(self) -> None:
        """Something is declared of a stream: its plan may be another one."""
        if not self._following:
            self._following = True
            self._soon(self._follow(), "index-follow")

    async def _follow(self) -> None:
        self._following = False
        try:
            await self.desk.follow()
        except Exception as failure:  # noqa: BLE001 - the next look at the plans finds it
            log.warning("plans of indexes were not followed", error=repr(failure))

    def doubt(self, made: str, reason: str) -> None:
        """A reader, in whatever thread, could not use an index object."""

        def ask() -> None:
            self._soon(self._doubt(made, reason), f"index-doubt-{made}")

        with contextlib.suppress(RuntimeError):  # the node has ended
            self._loop.call_soon_threadsafe(ask)

    def _soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._news.add(task)
        task.add_done_callback(self._news.discard)

    async def _doubt(self, made: str, reason: str) -> None:
        try:
            await self.desk.doubt(made, reason)
        except Exception as failure:  # noqa: BLE001 - the next reader says so again
            log.warning("a doubtful index object was not looked at", object=made, error=repr(failure))

    async def _tell(self, objects: list[Made]) -> None:
        for made in objects:
            try:
                self.desk.published(await asyncio.to_thread(_sealed, made, self.desk.knows))
            except Exception as failure:  # noqa: BLE001 - it is found by the next measure, and nothing is lost
                log.warning("news of an object were not understood", object=made.facts.made, error=repr(failure))

    async def _tend(self) -> None:
        while True:
            try:
                await self.desk.tend()
            except Exception as failure:  # noqa: BLE001 - indexes are late, and everything else goes on
                log.warning("the index desk cannot be tended", error=repr(failure))
            await asyncio.sleep(_TEND_S)


def store_at(settings: Settings) -> StoreAt | None:
    """Where a driver finds the bucket, without the secrets; it has its own."""
    match settings.object_store:
        case "folder":
            return StoreAt(kind="folder", folder=str(settings.objects_folder.resolve()))
        case "s3":
            return StoreAt(
                kind="s3",
                endpoint=settings.s3_endpoint,
                region=settings.s3_region,
                bucket=settings.s3_bucket,
                prefix=settings.s3_prefix,
                path_style=settings.s3_path_style,
            )
        case _:
            return None


def secrets_of(settings: Settings) -> dict[str, str]:
    """For the environment of a driver beside this node: its key of the node, and of the store if the settings name one.

    Without the latter the AWS SDK looks where it always looks, there as here.
    """
    found = {}
    if settings.api_key is not None and not settings.no_auth:
        found[TOKEN] = settings.api_key.get_secret_value()
    key, secret, token = settings.s3_access_key_id, settings.s3_secret_access_key, settings.s3_session_token
    if settings.object_store == "s3" and key is not None and secret is not None:
        found["AWS_ACCESS_KEY_ID"] = key.get_secret_value()
        found["AWS_SECRET_ACCESS_KEY"] = secret.get_secret_value()
        found["AWS_SESSION_TOKEN"] = "" if token is None else token.get_secret_value()
    return found


def _sealed(made: Made, wanted: Callable[[int], bool]) -> list[Sealed]:
    facts = made.facts
    entry_bytes = facts.payload_bytes / max(facts.entries, 1)
    if facts.stream is not None:
        places = [(facts.stream, facts.first_seq, facts.entries)]
    else:
        places = list(Directory.unpack(made.directory or b"", facts.made).places())
    return [
        Sealed(stream, first + count, count, int(count * entry_bytes))
        for stream, first, count in places
        if wanted(stream)
    ]
