"""One session for all tests of this folder that need Spark: a JVM takes seconds to start and half a gigabyte."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_index.session import Session
from streams_node.objects import FolderStore
from tests.spark.bucket import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session("local[2]", tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def spark(session: Session) -> "SparkSession":
    return session.spark()


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    work = tmp_path / "work"
    work.mkdir()
    return Bucket(FolderStore.open(tmp_path / "objects"), work)
