import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_node.objects import (
    FolderStore,
    MemoryStore,
    ObjectStore,
    RequestCounts,
    RetryingStore,
    RetryPolicy,
    WriteId,
)
from streams_node.objects.keys import Key, object_id, pack_key, root_prefix
from streams_node.objects.s3 import S3Address, S3Store
from tests.store import servers

STORES = ("folder", "memory", "moto", "seaweedfs")
# Real waits, and short ones: what is tested is their number.
QUICK = RetryPolicy(attempts_max=4, wait_ms=1, wait_ms_max=2)
# SeaweedFS lets the losers of a race for one key wait for seconds.
ATTEMPT_S = 20.0


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as address:
        yield address


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    with servers.moto(tmp_path_factory.mktemp("moto")) as address:
        yield address


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    with servers.rclone(tmp_path_factory.mktemp("rclone")) as address:
        yield address


@pytest.fixture(params=STORES)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """Each kind of store, empty, as it is: one attempt a call."""
    store = make_store(request, str(request.param), tmp_path)
    yield store
    store.close()


@pytest.fixture
def store(bare: ObjectStore) -> RetryingStore:
    """Each kind of store, empty, as callers hold it."""
    return RetryingStore(bare, RequestCounts(), QUICK)


def make_store(request: pytest.FixtureRequest, kind: str, folder: Path) -> ObjectStore:
    if kind == "folder":
        return FolderStore.open(folder / "objects")
    if kind == "memory":
        return MemoryStore()
    return s3_store(request.getfixturevalue(kind))


def s3_store(server: S3Address) -> S3Store:
    """A place of its own in the server's bucket."""
    own = root_prefix(f"{server.root}{secrets.token_hex(8)}")
    return S3Store(server._replace(root=own), servers.KEYS, attempt_s=ATTEMPT_S)


def new_key() -> Key:
    return pack_key(object_id(secrets.token_bytes(16)))


def new_write() -> WriteId:
    return WriteId(secrets.token_hex(16))
