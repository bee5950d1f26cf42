"""The questions of the benchmark of searches, and Tantivy alone as a side of it."""

import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from indexers.companion import Layout, Pack, View, Writer
from indexers.companion.layout import ROW
from indexers.messages import Cover
from indexers.records import Documents, Table
from ops.bench.events import SETS
from search.engine.source import Query, Source
from search.engine.translate import Translator
from search.language import query
from streams_node.schema.search_config import parse

SEED = 7
KINDS = 12  # questions of a kind: other values each
DEEP_PAGES = 20
PAGE = 20
KEYS = 500
WEEK_MS = 7 * 86_400_000
FROM_MS = 1_790_000_000_000  # the first event
TERMS_MAX = 60_000  # values of a segment that are counted, as the node has it: so that terms are exact
SEARCH, AGGREGATE, ROUTING_KEYS = "_search", "_aggregate", "_routing_keys"
READ = ""  # of the stream itself
READ_BYTES = 10_000  # about as much as a page of hits has
READ_NAME = "a page read, no search"


class Question(NamedTuple):
    asked: dict[str, Any]
    ordered: bool = False  # every side has to show the same
    pages: int = 1
    route: str = SEARCH
    adhoc: bool = False  # an aggregation that no rollup has: the other server knows no such thing


class Names(NamedTuple):
    """What the fields of a set of events are called."""

    id: str
    filters: tuple[str, str]
    number: str
    below: tuple[int, int]
    also: str
    beginning: tuple[str, int]  # a keyword, and how much of it
    deep: str
    time: str
    terms: str
    stats: str
    rollup: str
    group_by: tuple[str, ...]
    more: dict[str, dict[str, Any]]  # what is declared beyond what the building of indexes declares


NAMES = {
    "log": Names(
        "requestId", ("service", "level"), "bytes", (2000, 4000), "status:500", ("userId", 8), "service", "timestamp",
        "service", "duration", "traffic", ("service", "level"),
        {"userId": {"prefix": True}, "path": {"prefix": True}, "service": {"aggregatable": True}},
    ),
    "archive": Names(
        "ghArchiveId", ("eventType", "refType"), "payloadBytes", (400, 450), "commitCount:1", ("repoOwner", 8),
        "eventType", "eventTime", "eventType", "payloadBytes", "events", ("eventType",),
        {"repoOwner": {"prefix": True}, "eventType": {"aggregatable": True}},
    ),
}  # fmt: skip


def declared(kind: str) -> dict[str, Any]:
    """As for the building of indexes, and beginnings of keywords and terms to be counted."""
    made = SETS[kind]().declared()
    for name, more in NAMES[kind].more.items():
        made["search"]["fields"][name] |= more
    return made


def _rare(names: Names, event: dict[str, Any], _draw: random.Random) -> Question:
    return Question({"q": f'{names.id}:"{event[names.id]}"', "size": PAGE}, ordered=True)


def _filter(names: Names, event: dict[str, Any], _draw: random.Random) -> Question:
    parts = [f'{name}:"{event[name]}"' for name in names.filters if name in event]
    return Question({"q": " AND ".join(parts), "size": PAGE}, ordered=True)


def _range(names: Names, _event: dict[str, Any], draw: random.Random) -> Question:
    asked = f"{names.number}:<{draw.randrange(*names.below)} AND {names.also}"
    return Question({"q": asked, "size": PAGE}, ordered=True)


def _phrase(_names: Names, event: dict[str, Any], draw: random.Random) -> Question:
    words = event["message"].split()
    at = draw.randrange(1, len(words) - 1)
    return Question({"q": f'message:"{words[at]} {words[at + 1]}"', "size": PAGE})


def _bare(_names: Names, event: dict[str, Any], draw: random.Random) -> Question:
    return Question({"q": f"message:{draw.choice(event['message'].split())}", "size": PAGE})


def _prefix(names: Names, event: dict[str, Any], _draw: random.Random) -> Question:
    name, length = names.beginning
    return Question({"q": f'{name}:"{event[name][:length]}*"', "size": PAGE, "sort": ["offset"]})


def _deep(names: Names, event: dict[str, Any], _draw: random.Random) -> Question:
    asked = {"q": f'{names.deep}:"{event[names.deep]}"', "size": PAGE, "sort": [names.time, "offset"]}
    return Question(asked, ordered=True, pages=DEEP_PAGES)


def _adhoc(names: Names, _event: dict[str, Any], draw: random.Random) -> Question:
    stats = {"stats": {"field": names.stats}}
    hours = {"date_histogram": {"field": names.time, "interval": draw.choice(("1h", "2h", "6h"))}}
    terms = {"terms": {"field": names.terms}, "aggs": {"stats": stats}}
    return Question({"aggs": {"hours": hours, "terms": terms, "stats": stats}}, route=AGGREGATE, adhoc=True)


def _rollup(names: Names, _event: dict[str, Any], draw: random.Random) -> Question:
    begin = FROM_MS + draw.randrange(3_600_000)
    asked = {"rollup": names.rollup, "from": begin, "to": begin + WEEK_MS, "interval": "1h"}
    return Question(asked | {"group_by": list(names.group_by)}, ordered=True, route=AGGREGATE)


def _keys(_names: Names, _event: dict[str, Any], _draw: random.Random) -> Question:
    return Question({"limit": KEYS}, ordered=True, pages=DEEP_PAGES, route=ROUTING_KEYS)


def _nothing(_names: Names, _event: dict[str, Any], draw: random.Random) -> Question:
    return Question({"q": f"message:nothing{draw.randrange(1 << 40):x}", "size": PAGE}, ordered=True)


def _read(_names: Names, _event: dict[str, Any], _draw: random.Random) -> Question:
    return Question({"offset": "-1", "max_bytes": READ_BYTES}, route=READ)


QUERIES: dict[str, Callable[[Names, dict[str, Any], random.Random], Question]] = {
    "rare exact": _rare,
    "filter, newest 20": _filter,
    "range, newest 20": _range,
    "phrase": _phrase,
    "bare term": _bare,
    "prefix": _prefix,
    f"{DEEP_PAGES} deep pages": _deep,
    "histogram, terms, stats": _adhoc,
    "rollup over a week": _rollup,
    "walk of routing keys": _keys,
    "nothing found": _nothing,
    READ_NAME: _read,
}


def questions(kind: str, events: Sequence[dict[str, Any]]) -> dict[str, list[Question]]:
    """The same ones for each side."""
    draw = random.Random(SEED)  # noqa: S311 - the same questions each time
    return {
        name: [make(NAMES[kind], draw.choice(events), draw) for _ in range(KINDS)] for name, make in QUERIES.items()
    }


class Bare:
    """Tantivy on one index of all events, in this process: no HTTP, and no records."""

    def __init__(self, kind: str, batches: Iterable[Sequence[dict[str, Any]]], folder: Path) -> None:
        """Index all events, unless the folder has an index of them."""
        self._names = NAMES[kind]
        self._config = parse(declared(kind)["search"])
        layout = Layout(self._config.fields)
        ids, packed = folder / "ids", folder / "packed"
        if not packed.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._index(batches, layout, folder)
        shutil.rmtree(folder / "view", ignore_errors=True)
        self._ids = ids.read_text().split("\n")
        self._source = Source(View([Pack(packed)], folder / "view"), layout)

    def _index(self, batches: Iterable[Sequence[dict[str, Any]]], layout: Layout, folder: Path) -> None:
        writer, ids = Writer("bare", layout, folder / "build"), list[str]()
        for some in batches:
            seqs = list(range(len(ids), len(ids) + len(some)))
            ids += [event[self._names.id] for event in some]
            writer.add([1] * len(some), seqs, [0] * len(some), Table(Documents(list(some), [], plain=False), 1))
        cover = Cover(stream=1, first_seq=0, end_seq=len(ids), config="bare", ordinal=0, entries=len(ids),
                      payload_bytes=0, min_ts=0, max_ts=0)  # fmt: skip
        (folder / "ids").write_text("\n".join(ids))
        writer.finish(folder / "packed", ["bare"], [cover])

    @property
    def view(self) -> View:
        return self._source.view

    @staticmethod
    def answers(question: Question) -> bool:
        return question.route == SEARCH or question.adhoc

    def ask(self, question: Question) -> list[str]:
        """The ids of the hits, as Tantivy sorts them."""
        if question.adhoc:
            return self._aggregated(question.asked["aggs"])
        asked, searcher = question.asked, self._source.searcher
        found = Translator(self._source).pair(query(asked["q"], self._config)).upper
        ids = list[str]()
        for page in range(question.pages):
            if asked["q"].startswith("message:"):
                hits = searcher.search(found, limit=PAGE, offset=page * PAGE, count=False).hits
            else:
                time = self._names.time
                column = self._source.layout.of(time).column if time in asked.get("sort", ()) else ROW
                hits = searcher.search(
                    found, limit=PAGE, offset=page * PAGE, count=False, order_by_field=column
                ).hits  # fmt: skip
            ids += [self._ids[int(seq)] for seq in self._source.values(ROW, [address for _, address in hits])]
        return ids

    def _aggregated(self, aggs: dict[str, Any]) -> list[str]:
        column = self._source.layout.of
        hours = {"1h": 1, "2h": 2, "6h": 6}[aggs["hours"]["date_histogram"]["interval"]]
        stats = {"stats": {"field": column(self._names.stats).column}}
        histogram = {"field": column(self._names.time).ms, "interval": hours * 3_600_000, "min_doc_count": 1}
        terms = {"field": column(self._names.terms).column, "size": 10, "segment_size": TERMS_MAX}
        wanted = {"hours": {"histogram": histogram}, "terms": {"terms": terms, "aggs": {"stats": stats}}}
        every = self._source.searcher.aggregate(Query.all_query(), wanted | {"stats": stats})
        return [str(bucket["doc_count"]) for bucket in every["hours"]["buckets"]]
