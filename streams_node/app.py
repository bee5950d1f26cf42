"""The composition root: builds every part, wires them, runs them, and takes them down in order. It decides nothing."""

import asyncio
import contextlib
import ctypes
import gc
import os
import random
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import uvicorn
from typing_extensions import override

from streams_node import __version__
from streams_node.config import Settings
from streams_node.details import News, Watches
from streams_node.errors import DataFolderError, ListenError, StoreError, StreamsError, Unavailable
from streams_node.http.bodies import Bodies
from streams_node.http.cold import application
from streams_node.http.connection import protocol_of
from streams_node.http.connections import Connections
from streams_node.http.context import Context
from streams_node.http.edge import Edge
from streams_node.http.gauges import register
from streams_node.http.routes import RouteClass
from streams_node.ingest.batches import Batch
from streams_node.ingest.ledger import Ledger
from streams_node.live.registry import Live
from streams_node.metering import Metering
from streams_node.observe import logs
from streams_node.observe.busy import Busiest
from streams_node.observe.metrics import Metrics
from streams_node.observe.traces import TracesMissing
from streams_node.protocol.times import SECOND_US
from streams_node.subscriptions import Subscriptions
from streams_node.tiering import Tiering, bootstrap
from streams_node.upkeep import Upkeep
from streams_node.wal.batch import COLUMNS
from streams_node.wal.database import Database, Marks
from streams_node.wal.folder import DataFolder

log = logs.get_logger(__name__)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 256 << 20, 32 << 20  # the allocator keeps pages of large answers: see decisions/0002
_MICROS = 1000
_STREAMS_SHOWN = 5  # in a line of the log
_INSTANCE_BYTES = 3  # beside the number of the process, which comes again
_SWITCH_S = 0.0005  # a thread of readers, the writer or searches waits at most this long for the loop (decisions/0002)


def system_us() -> int:
    """The wall clock, in whole microseconds."""
    return time.time_ns() // _MICROS


def serve(settings: Settings) -> int:
    """Run a node until a signal ends it; 0 after a clean end, 1 when it could not start."""
    logs.configure(settings.log_format, settings.log_level)
    _tune_allocator()
    sys.setswitchinterval(_SWITCH_S)
    try:
        import uvloop  # noqa: PLC0415 - not on every platform

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        try:
            return runner.run(_serve(settings))
        except (DataFolderError, ListenError, StoreError, TracesMissing, OSError) as failure:
            print(f"streams-node: {getattr(failure, 'message', failure)}", file=sys.stderr)  # noqa: T201 - the logs are for a node that runs
            return 1


async def _serve(settings: Settings) -> int:
    connections = Connections(settings)
    async with node(settings, connections) as (context, upkeep):
        cold = application(context)
        register(context.metrics, context, connections)
        listeners = _listeners(settings, context, cold, connections)
        with _signals(context, listeners):
            await context.tiers.open()
            upkeep.start()
            context.tiers.start()
            tiers = context.tiers
            metering = Metering(
                context.ledger, context.metrics, tiers.counts, instance=_instance(), cold=lambda: tiers.reader
            )
            metering.start()
            _tune_collector()
            try:
                await _listen(settings, context, listeners)
            finally:
                await metering.stop()
                await upkeep.stop()
    return 0


async def _listen(settings: Settings, context: Context, listeners: list["Listener"]) -> None:
    """Serve until every listener has ended; say where, once all of them listen."""
    serving = [asyncio.create_task(listener.serve(), name=f"listen-{listener.config.port}") for listener in listeners]
    try:
        url, *operator = [await listener.address for listener in listeners]
        context.tiers.listening(_from_here([url, *operator][-1]))
        where = {"url": url, **({"operator_url": operator[0]} if operator else {})}
        log.info("ready", version=__version__, folder=str(settings.data), **where)
        await asyncio.gather(*serving)
    finally:
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


@asynccontextmanager
async def node(
    settings: Settings, connections: Connections, *, now_us: Callable[[], int] = system_us
) -> AsyncIterator[tuple[Context, Upkeep]]:
    """Every part but the listeners, opened in order and closed in the opposite one."""
    folder = DataFolder.open(settings.data)
    try:
        if settings.bootstrap_from_store:
            await asyncio.to_thread(bootstrap, settings, folder, now_us)
        database, marks = await Database.open(
            folder.database,
            cache_bytes=settings.sqlite_cache_bytes,
            reader_threads=settings.reader_threads,
            read_queue_max=settings.read_queue_max,
            wal_bytes=settings.sqlite_wal_grown_bytes,
        )
        try:
            folder.sign(used=True)
            context = _context(settings, folder, database, marks, connections, now_us)
            try:
                await context.subscriptions.open()
                yield context, Upkeep(context, connections, folder)
            finally:
                await context.subscriptions.stop()
                await context.searches.close()
                await context.tiers.stop()
                if context.spans is not None:
                    await asyncio.to_thread(context.spans.close)
            await context.ledger.committer.settled()
            context.ledger.committer.flush_heads()
            await context.ledger.committer.settled()
            context.ledger.openers.shutdown(wait=False)
            context.ledger.workshop.close()
        finally:
            await database.close()
    finally:
        folder.close()


def _context(
    settings: Settings,
    folder: DataFolder,
    database: Database,
    marks: Marks,
    connections: Connections,
    now_us: Callable[[], int],
) -> Context:
    metrics = Metrics()
    live = Live(
        readers_max=settings.live_waiters_max,
        tail_bytes_max=settings.hot_tail_bytes_max,
        stream_tail_bytes_max=settings.hot_tail_stream_bytes_max,
    )

    slow_s = settings.slow_request_ms / 1000

    def observe(batch: Batch, began: float, ended: float) -> None:
        metrics.append_wait_seconds.observe(ended - batch.opened)
        metrics.commit_seconds.observe(ended - began)
        metrics.commit_rows.observe(len(batch.writes.rows) // COLUMNS)
        metrics.commit_bytes.observe(batch.bytes)
        if ended - batch.opened > slow_s:
            streams = [f"{state.name.bucket}/{state.name.stream}" for state, *_ in batch.touched[:_STREAMS_SHOWN]]
            times = {"wait_ms": round((began - batch.opened) * 1000), "commit_ms": round((ended - began) * 1000)}
            log.warning("slow commit", appends=batch.appends, bytes=batch.bytes, streams=streams, **times)

    busy_appends = Busiest(time.monotonic)

    def committed(batch: Batch) -> None:
        live.published(batch)
        busy_appends.add_all([each[0].id for each in batch.touched])
        tiering.committed(batch)
        subscriptions.committed(batch)

    ledger = Ledger(
        database,
        settings,
        marks,
        now_us=now_us,
        on_committed=committed,
        observe=observe,
    )
    tiering = Tiering(settings, folder, database, ledger)
    tiering.register(metrics)
    subscriptions = Subscriptions(settings, folder.path, ledger, random.random)
    subscriptions.register(metrics)
    registry = subscriptions.registry
    details = Watches(News(lambda: tiering.generation, lambda: tiering.desk, time.monotonic, lambda: registry.version))
    tiering.heard = registry.heard = details.published
    return Context(
        settings,
        database,
        ledger,
        live,
        metrics,
        Bodies(settings),
        connections,
        now_s=lambda: now_us() / SECOND_US,
        jitter=random.random,
        subscriptions=subscriptions,
        details=details,
        busy_appends=busy_appends,
        tiers=tiering,
    )


class Listener(uvicorn.Server):
    """uvicorn's server without its signals: the node ends all listeners together. `address` is where it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening. Where uvicorn would end the process, the node is to be closed first."""
        config = self.config
        try:
            await super().startup(sockets)
        except SystemExit:
            problem = f"{config.host}:{config.port} cannot be listened on; is another node there? choose another port"
            self.address.set_exception(ListenError(problem))
            self.should_exit = True
            return
        port = self.servers[0].sockets[0].getsockname()[1]  # the one that was free, for port 0
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.address.set_result(f"{'https' if config.is_ssl else 'http'}://{host}:{port}")

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield


def _listeners(settings: Settings, context: Context, cold: object, connections: Connections) -> list[Listener]:
    every = frozenset(RouteClass)
    if settings.operator_port is None:
        plan = [(settings.host, settings.port, every)]
    else:
        public = frozenset((RouteClass.PUBLIC,))
        plan = [
            (settings.host, settings.port, public),
            (settings.operator_host, settings.operator_port, every - public),
        ]
    return [
        Listener(
            uvicorn.Config(
                Edge(context, cold, classes),  # type: ignore[arg-type]
                host=host,
                port=port,
                loop="none",
                http=protocol_of(connections),
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=True,
                proxy_headers=False,
                timeout_keep_alive=settings.keep_alive_ms // 1000,
                timeout_graceful_shutdown=settings.shutdown_grace_ms // 1000,
                ssl_certfile=settings.tls_certfile,
                ssl_keyfile=settings.tls_keyfile,
                ssl_version=ssl.PROTOCOL_TLS_SERVER,
            )
        )
        for host, port, classes in plan
    ]


@contextlib.contextmanager
def _signals(context: Context, listeners: list[Listener]) -> Iterator[None]:
    """SIGTERM and SIGINT: refuse new writes, finish live reads, let every decided append be answered, then stop."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if any(listener.should_exit for listener in listeners):
            for listener in listeners:
                listener.force_exit = True
            return
        log.info("stopping")
        context.ledger.refusals["shutting_down"] = _shutting_down()
        context.live.end_all()
        if context.tiers.desk is not None:
            context.tiers.desk.end()
        for listener in listeners:
            listener.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _from_here(url: str) -> str:
    """The address of a listener as this machine itself reaches it, also if it listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _instance() -> str:
    """A name of this process among all that ever wrote its numbers."""
    return f"{os.getpid()}-{secrets.token_hex(_INSTANCE_BYTES)}"


def _shutting_down() -> StreamsError:
    return Unavailable("the node is shutting down; try again")


def _tune_collector() -> None:
    """What is there after the start stays: not looking through it again took 30 ms pauses away (decisions/0002)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _tune_allocator() -> None:
    """Both thresholds together keep the pages of large answers; elsewhere than glibc there is nothing to tune."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
    except (OSError, AttributeError):
        log.debug("the allocator is not glibc's")
