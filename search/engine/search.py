"""Pages of hits over views and a tail."""

from collections.abc import Sequence
from pathlib import Path

from indexers.companion import Pack, View, stitching_works
from search.engine.model import Ask, Page
from streams_node.schema.search_config import SearchConfig


def open_views(packs: Sequence[Pack], folder: Path) -> tuple[View, ...]:
    """One view of all; or a view each, where this Tantivy's indexes cannot be put together."""
    if not packs:
        return ()
    if len(packs) == 1 or stitching_works():
        return (View(packs, folder),)
    return tuple(View([pack], folder / str(number)) for number, pack in enumerate(packs))


class Searcher:
    """Searches of streams of one configuration and schema version over the same views. For any number of threads."""

    def __init__(self, views: Sequence[View], config: SearchConfig, version: int) -> None:
        self._views = tuple(views)
        self._config = config
        self._version = version

    def page(self, ask: Ask) -> Page:
        raise NotImplementedError
