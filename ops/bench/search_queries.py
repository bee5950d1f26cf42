"""The questions of the benchmark of searches, and Tantivy alone as a side of it."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from indexers.companion import Layout, Pack, View, Writer
from indexers.companion.layout import ROW
from indexers.messages import Cover
from indexers.records import Documents, Table
from search.engine.source import Source
from search.engine.translate import Translator
from search.language import query
from streams_node.schema.search_config import parse

SEED = 7
KINDS = 12  # questions of a kind: other values each
DEEP_PAGES = 20
PAGE = 20


class Question(NamedTuple):
    asked: dict[str, Any]
    ordered: bool = False  # every side has to show the same hits
    pages: int = 1


def _rare(event: dict[str, Any], _draw: random.Random) -> Question:
    return Question({"q": f'requestId:"{event["requestId"]}"', "size": PAGE}, ordered=True)


def _filter(event: dict[str, Any], _draw: random.Random) -> Question:
    return Question({"q": f'service:"{event["service"]}" AND level:"{event["level"]}"', "size": PAGE}, ordered=True)


def _range(_event: dict[str, Any], draw: random.Random) -> Question:
    return Question({"q": f"bytes:<{draw.randrange(2000, 4000)} AND status:500", "size": PAGE}, ordered=True)


def _phrase(event: dict[str, Any], draw: random.Random) -> Question:
    words = event["message"].split()
    at = draw.randrange(len(words) - 1)
    return Question({"q": f'message:"{words[at]} {words[at + 1]}"', "size": PAGE})


def _bare(event: dict[str, Any], draw: random.Random) -> Question:
    return Question({"q": f"message:{draw.choice(event['message'].split())}", "size": PAGE})


def _prefix(event: dict[str, Any], _draw: random.Random) -> Question:
    return Question({"q": f'userId:"{event["userId"][:8]}*"', "size": PAGE, "sort": ["offset"]})


def _deep(event: dict[str, Any], _draw: random.Random) -> Question:
    asked = {"q": f'service:"{event["service"]}"', "size": PAGE, "sort": ["timestamp", "offset"]}
    return Question(asked, ordered=True, pages=DEEP_PAGES)


QUERIES: dict[str, Callable[[dict[str, Any], random.Random], Question]] = {
    "rare exact": _rare,
    "filter, newest 20": _filter,
    "range, newest 20": _range,
    "phrase": _phrase,
    "bare term": _bare,
    "prefix": _prefix,
    f"{DEEP_PAGES} deep pages": _deep,
}


def questions(events: Sequence[dict[str, Any]]) -> dict[str, list[Question]]:
    """The same ones for each side."""
    draw = random.Random(SEED)  # noqa: S311 - the same questions each time
    return {name: [make(draw.choice(events), draw) for _ in range(KINDS)] for name, make in QUERIES.items()}


class Bare:
    """Tantivy on one index of all events, in this process: no HTTP, and no records."""

    def __init__(self, events: Sequence[dict[str, Any]], declared: dict[str, Any], folder: Path) -> None:
        self._config = parse(declared)
        layout = Layout(self._config.fields)
        folder.mkdir(parents=True)
        self._ids = [event["requestId"] for event in events]
        count = len(events)
        writer = Writer("bare", layout, folder / "build")
        for first in range(0, count, 8192):
            some = list(events[first : first + 8192])
            seqs = list(range(first, first + len(some)))
            writer.add([1] * len(some), seqs, [0] * len(some), Table(Documents(some, [], plain=False), 1))
        cover = Cover(stream=1, first_seq=0, end_seq=count, config="bare", ordinal=0, entries=count, payload_bytes=0,
                      min_ts=0, max_ts=0)  # fmt: skip
        writer.finish(folder / "packed", ["bare"], [cover])
        self._source = Source(View([Pack(folder / "packed")], folder / "view"), layout)

    def ask(self, question: Question) -> list[str]:
        """The ids of the hits, as Tantivy sorts them."""
        asked, searcher = question.asked, self._source.searcher
        found = Translator(self._source).pair(query(asked["q"], self._config)).upper
        ids = list[str]()
        for page in range(question.pages):
            if asked["q"].startswith("message:"):
                hits = searcher.search(found, limit=PAGE, offset=page * PAGE, count=False).hits
            else:
                column = self._source.layout.of("timestamp").column if "timestamp" in asked.get("sort", ()) else ROW
                hits = searcher.search(
                    found, limit=PAGE, offset=page * PAGE, count=False, order_by_field=column
                ).hits  # fmt: skip
            ids += [self._ids[int(seq)] for seq in self._source.values(ROW, [address for _, address in hits])]
        return ids
