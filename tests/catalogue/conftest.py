from pathlib import Path

import pytest

from tests.catalogue.world import World, retrying


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A node that has claimed an empty bucket in memory."""
    return World(retrying(), tmp_path / "catalogue")
