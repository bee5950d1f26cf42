"""What the benchmarks of indexing append: drawn events, the same ones each time, and how they are declared."""

import random
import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import orjson
from typing_extensions import override

SEED = 20_261
WORDS = 5000
LETTERS = "abcdefghijklmnopqrstuvwxyz"
EPOCH_S = 1_790_000_000


class Events(Protocol):
    """A source of events."""

    def batch(self, count: int) -> bytes:
        """The next ones, as a JSON array."""
        ...

    def declared(self) -> dict[str, Any]:
        """Schema, routing key and search of their stream."""
        ...


class _Drawn:
    """Words by Zipf's law, and a clock."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)  # noqa: S311 - the same events each time
        words = ["".join(self.random.choices(LETTERS, k=3 + at % 7)) for at in range(WORDS)]
        weights = [1 / (at + 1) for at in range(WORDS)]
        self._pool = self.random.choices(words, weights, k=100_000)
        self.count = 0

    def batch(self, count: int) -> bytes:
        return orjson.dumps([self._event() for _ in range(count)])

    def words(self, count: int) -> str:
        at = self.random.randrange(len(self._pool) - count)
        return " ".join(self._pool[at : at + count])

    def moment(self, a_second: float) -> str:
        moment = time.gmtime(EPOCH_S + int(self.count / a_second))
        return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{self.count % 1000:03d}Z"

    def _event(self) -> dict[str, Any]:
        raise NotImplementedError


class LogEvents(_Drawn):
    """Log events of 460 bytes with 13 fields."""

    KEYWORDS: ClassVar = {
        "level": 4,
        "service": 8,
        "environment": 3,
        "method": 4,
        "region": 5,
        "path": 200,
        "userId": 3000,
    }

    @override
    def _event(self) -> dict[str, Any]:
        draw, self.count = self.random, self.count + 1
        return {
            "timestamp": self.moment(20),
            **{name: f"{name}-{draw.randrange(values)}" for name, values in self.KEYWORDS.items()},
            "requestId": f"{draw.getrandbits(128):032x}",
            "status": draw.choice((200, 200, 200, 201, 404, 500)),
            "bytes": draw.randrange(100_000),
            "duration": round(draw.expovariate(0.02), 2),
            "message": self.words(25),
        }

    def declared(self) -> dict[str, Any]:
        fields = {name: _field(name, "keyword", exact=True) for name in (*self.KEYWORDS, "requestId")}
        fields |= {
            "timestamp": _field("timestamp", "date", column=True, sortable=True),
            "status": _field("status", "integer", exact=True, column=True),
            "bytes": _field("bytes", "integer", column=True),
            "duration": _field("duration", "float", column=True, aggregatable=True),
            "message": _field("message", "text", analyzer="unicode_word_v1", positions=True),
        }
        rollup = {
            "timestampField": "timestamp",
            "dimensions": ["service", "level"],
            "intervals": ["1m", "1h"],
            "measures": {"events": {"kind": "count"}, "took": {"kind": "summary", "field": "duration"}},
        }
        search = {"primaryTimestampField": "timestamp", "fields": fields, "rollups": {"traffic": rollup}}
        return _declared(search, "userId")


class ArchiveEvents(_Drawn):
    """Events as of the public archive of GitHub: 18 fields of which many are rare, some 500 bytes, few keys that
    are everywhere and many that are hardly anywhere, and a rollup of seven intervals with histograms.
    """

    TYPES: ClassVar = {
        "Push": 52.9, "Watch": 13.1, "Create": 11.9, "Follow": 3.6, "Issues": 3.5, "Gist": 3.2, "Fork": 3.2,
        "PullRequest": 2.8, "Gollum": 2.2, "CommitComment": 1.4, "Delete": 0.9, "Member": 0.7, "Download": 0.5,
    }  # fmt: skip
    COMMITS = (0,) * 47 + (1,) * 39 + (2,) * 7 + (3,) * 3 + (5, 8, 12, 20)
    A_SECOND = 2800 / 3600
    REPOSITORIES, OWNERS, ACTORS, ORGANISATIONS = 400_000, 300_000, 350_000, 5_000
    LARGEST = 0.12  # of one repository

    @override
    def _event(self) -> dict[str, Any]:
        draw, self.count = self.random, self.count + 1
        kind = draw.choices(list(self.TYPES), list(self.TYPES.values()))[0]
        repository = 0 if draw.random() < self.LARGEST else self._rank(self.REPOSITORIES)
        owner, actor = f"owner-{repository * 7 % self.OWNERS}", f"actor-{self._rank(self.ACTORS)}"
        moment = self.moment(self.A_SECOND)
        event: dict[str, Any] = {
            "actorLogin": actor,
            "archiveHour": moment[:13],
            "commitCount": draw.choice(self.COMMITS) if kind == "Push" else 0,
            "eventTime": moment,
            "eventType": f"{kind}Event",
            "ghArchiveId": str(2_000_000_000 + self.count),
            "isBot": draw.random() < 0.0003,  # noqa: PLR2004 - as measured
            "message": f"{kind}Event {owner} {self.words(12)}",
            "payloadBytes": int(draw.lognormvariate(6.7, 0.4)),
            "public": True,
            "repoName": f"{owner}/repo-{repository}",
            "repoOwner": owner,
        }
        event["payloadKb"] = round(event["payloadBytes"] / 1024, 3)
        if draw.random() < 0.254:  # noqa: PLR2004
            event["action"] = draw.choice(("opened", "closed", "started", "created", "added", "edited"))
        if draw.random() < 0.163:  # noqa: PLR2004
            event["orgLogin"] = f"org-{self._rank(self.ORGANISATIONS)}"
        if kind in {"Issues", "PullRequest"}:
            event["title"] = self.words(6)
        if kind in {"Create", "Delete"}:
            event["refType"] = draw.choice(("branch", "tag", "repository"))
        if kind == "Push":
            event["body"] = self.words(10)
        return dict(sorted(event.items()))

    def _rank(self, count: int) -> int:
        """Of many things, the first ones more often."""
        return int(count ** self.random.random()) - 1

    def declared(self) -> dict[str, Any]:
        keywords = ("action", "actorLogin", "archiveHour", "eventType", "ghArchiveId", "orgLogin", "refType")
        fields = {name: _field(name, "keyword", exact=True) for name in (*keywords, "repoName", "repoOwner")}
        fields |= {name: _field(name, "bool", column=True, exact=True) for name in ("public", "isBot")}
        fields |= {
            name: _field(name, "text", analyzer="unicode_word_v1", positions=True)
            for name in ("title", "body", "message")
        }
        fields |= {
            "eventTime": _field("eventTime", "date", column=True, sortable=True),
            "commitCount": _field("commitCount", "integer", column=True, aggregatable=True),
            "payloadBytes": _field("payloadBytes", "integer", column=True, aggregatable=True),
            "payloadKb": _field("payloadKb", "float", column=True),
        }
        summaries = {
            name: {"kind": "summary", "field": field, "histogram": "log2_v1"}
            for name, field in (("payload", "payloadBytes"), ("commits", "commitCount"))
        }
        rollup = {
            "timestampField": "eventTime",
            "dimensions": ["eventType", "repoOwner", "public", "isBot"],
            "intervals": ["1m", "5m", "15m", "1h", "6h", "1d", "7d"],
            "measures": {"events": {"kind": "count"}, **summaries},
        }
        search = {"primaryTimestampField": "eventTime", "fields": fields, "rollups": {"events": rollup}}
        return _declared(search, "repoName")


def _field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "bindings": [{"version": 1, "jsonPointer": f"/{name}"}], **more}


def _declared(search: dict[str, Any], key: str) -> dict[str, Any]:
    return {
        "schema": {"type": "object"},
        "routingKey": {"jsonPointer": f"/{key}", "required": False},
        "search": search,
    }


SETS: dict[str, Callable[[], Events]] = {"log": LogEvents, "archive": ArchiveEvents}
