from collections.abc import Iterator

import pytest

from streams_node.objects.s3 import S3Address
from streams_node.uploader import stage
from tests.store import servers


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uploader tries again at once: what is tested is that it does."""
    monkeypatch.setattr(stage, "_BACKOFF_S", 0.02)
    monkeypatch.setattr(stage, "_BACKOFF_S_MAX", 0.1)


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as address:
        yield address
