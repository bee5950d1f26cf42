"""What of a stream companions cover: those in the catalogue, and the minis of this node."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from streams_node.answers import Indexes, configs_of
from streams_node.answers.ranges import Range
from streams_node.indexing import Covering
from streams_node.indexing.spans import without
from streams_node.ingest.state import StreamState
from streams_node.meaning import Meaning
from streams_node.read.cold import ColdReader
from streams_node.read.keyed import Lenses
from streams_node.schema.search_config import SearchConfig
from streams_node.searching.minis import Mini, Wish
from streams_node.searching.scan import joined

if TYPE_CHECKING:
    from streams_node.searching.service import Searches

_STREAMS_MAX, _COVERS_MAX = 64, 2048


class Covered(NamedTuple):
    """Companions that can be read; `ranges` of entries in order."""

    covers: Sequence[Covering]
    minis: Sequence[Mini]
    ranges: list[Range]

    def of(self, covers: Sequence[Covering]) -> list[Range]:
        """What minis cover, and only these of the companions."""
        return self.ranges if len(covers) == len(self.covers) else ranges_of(covers, self.minis)


class Subject(NamedTuple):
    """A stream that is looked into, as it is meant now: entries [first, end)."""

    cold: ColdReader | None
    indexes: Indexes | None
    state: StreamState
    meaning: Meaning
    config: SearchConfig
    lenses: Lenses
    first: int
    end: int


async def covered(searches: "Searches", subject: Subject) -> Covered:
    """What covers it; the first stretch that nothing covers is to be indexed soon, if it is long."""
    indexes, state, meaning = subject.indexes, subject.state, subject.meaning
    views = None if indexes is None else indexes.views
    config = configs_of(meaning, is_json=state.is_json).get("companion")
    if indexes is None or views is None or config is None:
        return Covered((), (), [])
    covers = known = await indexes.covers(state.id, "companion", config)
    if covers and (covers[0].end_seq <= subject.first or not indexes.runs.all_usable()):
        usable = indexes.runs.usable
        covers = [cover for cover in covers if cover.end_seq > subject.first and usable(cover.made)]
    ranges = searches.joined.of(state.id, covers) if covers is known else ranges_of(covers, ())
    minis = await searches.minis.of(views, state.id, meaning, config, ranges, subject.first)
    found = Covered(covers, minis, ranges_of(covers, minis) if minis else ranges)
    for gap in without([Range(subject.first, subject.end)], found.ranges):
        wish = Wish(subject.cold, state, meaning, subject.lenses, subject.config, config, Range(*gap), views)
        if searches.minis.want(wish):
            break
    return found


class Joined:
    """The ranges of covers, kept as long as these are the same ones: each search asks, and there may be hundreds."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Sequence[Covering], list[Range]]] = OrderedDict()  # by stream

    def of(self, stream: int, covers: Sequence[Covering]) -> list[Range]:
        if len(covers) > _COVERS_MAX:
            return ranges_of(covers, ())
        known = self._known.get(stream)
        if known is None or known[0] is not covers:
            known = self._known[stream] = covers, ranges_of(covers, ())
        self._known.move_to_end(stream)
        if len(self._known) > _STREAMS_MAX:
            self._known.popitem(last=False)
        return known[1]


def ranges_of(covers: Sequence[Covering], minis: Sequence[Mini]) -> list[Range]:
    """What they cover, in order, neighbours in one."""
    return joined(
        [*((cover.first_seq, cover.end_seq) for cover in covers), *((mini.first, mini.end) for mini in minis)]
    )
