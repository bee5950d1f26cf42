"""Entries that do not have what is declared: they are covered as all others are, and found by what they do have.

The oracle is the node itself before anything is sealed: then every answer comes from the entries.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_index.session import Session
from tests.clients.conftest import Node, started
from tests.spark.test_node import committed
from tests.spark.whole import JSON, Whole

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KINDS: dict[str, dict[str, Any]] = {
    "word": {"kind": "keyword", "exact": True, "prefix": True},
    "whole": {"kind": "integer", "exact": True, "column": True},
    "real": {"kind": "float", "exact": True, "column": True, "aggregatable": True},
    "when": {"kind": "date", "exact": True, "column": True},
    "flag": {"kind": "bool", "exact": True, "column": True},
    "said": {"kind": "text", "analyzer": "unicode_word_v1", "positions": True},
}
SEARCH = {
    "primaryTimestampField": "when",
    "fields": {
        name: {**kind, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}]} for name, kind in KINDS.items()
    },
    "rollups": {"r": {"timestampField": "when", "dimensions": ["word"], "intervals": ["1h"],
                      "measures": {"n": {"kind": "count"}, "s": {"kind": "summary", "field": "real"}}}},
}  # fmt: skip
DECLARED = {"schema": True, "routingKey": {"jsonPointer": "/key", "required": False}, "search": SEARCH}
BIG_CHARS = 10 << 20
STRANGE = (
    "1", '"text"', "null", "true", "[1,[2]]", "{}", "[]", "1e999", "-0.0", '{"a":' * 200 + "1" + "}" * 200,
    '{"word":"lone\\ud800","key":"lone\\udc00","said":"before \\ud800 after"}',
    '{"word":"nul\\u0000nul","key":"nul\\u0000","said":"nul\\u0000led words"}',
    '{"word":"","key":"","said":""}',
    '{"whole":9223372036854775808,"real":9223372036854775808}',
    '{"whole":-99999999999999999999999,"real":1e308}',
    '{"whole":18446744073709551616,"real":123456789012345678901234567890}',
    '{"whole":1.5,"real":"1.5","flag":"true","when":"yesterday","word":5,"said":{"a":1}}',
    '{"whole":"17","real":true,"flag":1,"when":-1,"word":["a",["b",null,"a"]],"said":["one two","three"]}',
    '{"whole":[1,2,"x",null,99999999999999999999],"when":["2026-01-01T00:00:00Z","bad",0],"flag":[true,false]}',
    '{"when":"9999-12-31T23:59:59.999999999Z","word":"late"}',
    '{"when":"0001-01-01T00:00:00Z","word":"early"}',
    '{"when":99999999999999999,"key":"far"}',
    '{"key":5}', '{"key":["a"]}', '{"key":{"a":1}}', '{"key":null}',
    '{"word":"twice","word":"again","key":"same","key":"other"}',
    '{"word":"' + "w" * 70_000 + '","key":"long","said":"' + "x" * 70_000 + ' tail"}',
)  # fmt: skip
FILTERS = (
    "word:early", "word:late", "word:a", "word:b", "word:again", "word:5", "whole:1", "whole:2", "whole:17",
    "whole:9223372036854775808", "whole:99999999999999999999", "whole:>5", "real:1.5", "real:>1e300", "flag:true",
    "flag:false", 'when:"2026-01-01T00:00:00Z"', 'when:>"2000-01-01T00:00:00Z"', "said:three", "said:tail", "said:led",
    "has:word", "-has:word", "word:common AND NOT whole:3", "said:big",
)  # fmt: skip
SKIPPED = "SELECT family, sum(skipped) FROM index_covers WHERE family <> 'metrics' GROUP BY family ORDER BY family"
REFUSED_MAX = 7  # too deep, no number, half a character, a key that is no text: their writers are told
KEYS = ("same", "other", "long", "", "nul\0", "5", "a", "k", "far")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with started(
        tmp_path, "--no-auth", "--index-driver", "off", "--index-stream-entries", "1",
        "--object-store-folder", str(tmp_path / "objects"),
    ) as node:  # fmt: skip
        yield node


def texts() -> list[str]:
    wide = {f"field{number}": number for number in range(10_000)} | {"word": "common", "key": "k", "whole": 3}
    big = {"word": "common", "key": "k", "said": "big " + "filler " * (BIG_CHARS // 7), "more": {"word": "b"}}
    usual = [json.dumps({"word": "common", "whole": number, "key": "k", "said": f"n{number}"}) for number in range(40)]
    return [*usual[:20], *STRANGE, json.dumps(wide), json.dumps(big), *usual[20:]]


def answers(it: Whole) -> dict[str, Any]:
    """To everything that is asked, also what is refused."""
    found: dict[str, Any] = {}
    with it.http as http:
        for name, asked in [("filter", each) for each in FILTERS] + [("key", each) for each in KEYS]:
            answer = http.get(it.path, params={"offset": "-1", name: asked})
            bodies, offset = [answer.content], answer.headers.get("stream-next-offset")
            while answer.is_success and "stream-up-to-date" not in answer.headers:
                answer = http.get(it.path, params={"offset": offset, name: asked})
                offset = answer.headers["stream-next-offset"]
                bodies.append(answer.content)
            entries = [each for body in bodies for each in json.loads(body)] if answer.is_success else bodies[0]
            found[f"{name}={asked}"] = answer.status_code, entries
    return found


def test_strange_entries_are_covered_and_found_by_what_they_have(session: Session, node: Node, tmp_path: Path) -> None:
    it = Whole(node, "/v1/stream/shop/strange")
    it.create(DECLARED)
    refused = list[str]()
    for text in texts():
        with it.http as http:
            answer = http.post(it.path, content=f"[{text}]".encode(), headers=JSON)
        (it.entries if answer.is_success else refused).append(text)
    assert len(refused) <= REFUSED_MAX
    assert len(it.entries) + len(refused) == len(texts())
    plain = Whole(node, "/v1/stream/shop/plain")
    plain.ask("PUT", plain.path, headers={"content-type": "text/plain"})
    plain.ask("POST", plain.path, content=b"no \xff JSON \x00", headers={"content-type": "text/plain"})
    before = answers(it)
    assert sum(status == 200 and bool(found) for status, found in before.values()) > 20
    it.flush()
    assert committed(node, session, tmp_path / "log")
    assert it.is_covered()
    it.covered_once()
    assert it.overview()["failed"] == []
    after = answers(it)
    assert {asked for asked in before if before[asked] != after[asked]} == set()
    skipped = it.rows(SKIPPED)
    objects = sum(not isinstance(json.loads(text), dict) for text in it.entries)
    assert skipped == [("companion", objects), ("exact", objects), ("lexicon", 0), ("rollups", objects)]
