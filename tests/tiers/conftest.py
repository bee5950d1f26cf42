from collections.abc import Iterator

import pytest

from streams_node.compactor import stage as compactor_stage
from streams_node.objects.s3 import S3Address
from streams_node.uploader import stage as uploader_stage
from tests.store import servers


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages look and try again at once: what is tested is that they do."""
    monkeypatch.setattr(uploader_stage, "_BACKOFF_S", 0.02)
    monkeypatch.setattr(uploader_stage, "_BACKOFF_S_MAX", 0.1)
    monkeypatch.setattr(compactor_stage, "_BACKOFF_S", 0.02)
    monkeypatch.setattr(compactor_stage, "_LOOK_S", 0.02)


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as address:
        yield address
