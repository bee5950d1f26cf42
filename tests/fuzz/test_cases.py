"""More than 20,000 cases of everything that declares or selects, over entries in the bucket and in the log: a clear
answer, soon; a declaration is taken whole or not at all, and its stream goes on.

STREAMS_FUZZ_SEED repeats a run.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, quote_from_bytes, unquote

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet
from schemathesis.core.result import Ok

from streams_node.http import resources
from streams_node.http.openapi import document
from tests.fuzz.field import FRESH, SEALED, Field, checked, fields, goes_on, whole
from tests.fuzz.strategies import CONFIGS, JSON_VALUES, ODD, PROFILES, SCHEMAS, TEXTS, UPDATES
from tests.profiles.entries import evlog_entries, values
from tests.schema.messages import JSON, append, update
from tests.selection.world import SEARCH

SEED = int(os.environ.get("STREAMS_FUZZ_SEED") or random.SystemRandom().randrange(1 << 32))
CASES = {"updates": 4000, "entries": 3000, "bytes": 2000, "profiles": 5000, "profiled": 1600, "selections": 5000,
         "operations": 1200}  # fmt: skip
BATCH = 50
MANY = 16
DRAWN = [Phase.generate]  # a seed repeats it; to make batches of this size small takes long
pytestmark = pytest.mark.timeout(600)  # of a machine that does other things, too


def test_there_are_enough_cases() -> None:
    assert sum(CASES.values()) >= 20_000


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    with fields(tmp_path_factory.mktemp("fuzz")) as field:
        yield field


@pytest.fixture
def cases(field: Field, request: pytest.FixtureRequest) -> Iterator[None]:
    """Counts them: a test that draws fewer than it is to draw fails."""
    print(f"STREAMS_FUZZ_SEED={SEED}")  # noqa: T201 - to run it again
    before, name = field.cases, request.function.__name__.removeprefix("test_")
    yield
    if not request.session.testsfailed:
        assert field.cases - before >= CASES[name.partition("_")[0]]


def drawn(examples: int, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Runs a function with so many examples, at once."""

    def run(test: Callable[..., None]) -> None:
        chosen = settings(
            max_examples=examples, deadline=None, database=None, phases=DRAWN, suppress_health_check=list(HealthCheck)
        )
        hypothesis.seed(SEED)(chosen(given(*strategies)(test)))()

    return run


def batches(each: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(each, min_size=size, max_size=size)


@pytest.mark.usefixtures("cases")
def test_updates_are_taken_whole_or_not_at_all(field: Field) -> None:
    size = 5

    async def some(updates: list[Any], entry: Any) -> None:
        path = await field.sown()
        texts = [json.dumps(one).encode() for one in (*SEALED, FRESH)]
        registry, profile = (await field.get(f"{path}/_schema")).body, (await field.get(f"{path}/_profile")).body
        for one in updates:
            answer = checked(await update(field.node, own(one, path), path), 409)
            registry = answer.body if answer.status == 200 else registry
        await whole(field, path, registry, profile, texts)
        await goes_on(field, path, texts, entry)

    @drawn(CASES["updates"] // size, batches(UPDATES, size), JSON_VALUES)
    def each(updates: list[Any], entry: Any) -> None:
        field.cases += len(updates)
        field.run(some(updates, entry))


def own(given_update: Any, path: str) -> bytes:
    """With the stream's own name, so that lenses fit."""
    return json.dumps(given_update).replace('"schema": "s"', f'"schema": "{path.rpartition("/")[2]}"').encode()


@pytest.mark.usefixtures("cases")
def test_entries_are_stored_together_or_not_at_all(field: Field) -> None:
    """And each alone is judged as it is together with others."""
    size = 10

    async def some(schema: Any, entries: list[Any]) -> None:
        path = await field.fresh()
        checked(await update(field.node, {"schema": schema}, path))
        alone = [checked(await append(field.node, [entry], path)).status for entry in entries]
        good = [entry for entry, status in zip(entries, alone, strict=True) if status == 204]
        assert (await append(field.node, entries, path)).status == (204 if len(good) == len(entries) else 400)
        texts = [json.dumps(entry).encode() for entry in (good * 2 if len(good) == len(entries) else good)]
        if good:
            assert (await append(field.node, good, path)).status == 204
            many = good * (MANY // len(good) + 1)  # so many may be judged by their types alone
            assert (await append(field.node, many, path)).status == 204
            texts += [json.dumps(entry).encode() for entry in (*good, *many)]
            for entry, status in zip(entries, alone, strict=True):
                if status != 204:
                    assert (await append(field.node, [*many, entry], path)).status == 400
        raw = await field.get(f"{path}?format=raw")
        assert raw.body == b"".join(texts)

    @drawn(CASES["entries"] // size, SCHEMAS, batches(JSON_VALUES, size))
    def each(schema: Any, entries: list[Any]) -> None:
        field.cases += len(entries)
        field.run(some(schema, entries))


@pytest.mark.usefixtures("cases")
def test_bytes_of_any_kind_are_answered(field: Field) -> None:
    async def some(bodies: list[bytes]) -> None:
        path = await field.sown()
        texts = [json.dumps(one).encode() for one in (*SEALED, FRESH)]
        registry, profile = (await field.get(f"{path}/_schema")).body, (await field.get(f"{path}/_profile")).body
        for at, body in enumerate(bodies):
            target = path + ("/_schema", "/_profile", "", "/_schema")[at % 4]
            answer = checked(await field.node.request("POST", target, JSON, body), 501)
            assert answer.status >= 400, (target, body, answer)  # none of them is what the schema asks for
        await whole(field, path, registry, profile, texts)
        await goes_on(field, path, texts, {"a": "b"})

    @drawn(CASES["bytes"] // BATCH, batches(st.binary(max_size=60) | st.text(max_size=40).map(str.encode), BATCH))
    def each(bodies: list[bytes]) -> None:
        field.cases += len(bodies)
        field.run(some(bodies))


@pytest.mark.usefixtures("cases")
def test_profiles_are_set_whole_or_not_at_all(field: Field) -> None:
    samples: dict[str, Any] = {"metrics": METRIC, "evlog": {"a": 1}}

    async def some(bodies: list[bytes]) -> None:
        for path, texts in ((await field.fresh(), []), (await field.sown(), [*SEALED, FRESH])):
            profile = (await field.get(f"{path}/_profile")).body
            for body in bodies[:: 2 if texts else 1]:  # one of them with entries, of which less is taken
                answer = checked(await field.node.request("POST", f"{path}/_profile", JSON, body), 501)
                profile = answer.body if answer.status == 200 else profile
                assert (await field.get(f"{path}/_profile")).body == profile
            registry = await field.get(f"{path}/_schema")
            kind = json.loads(profile)["profile"]["kind"]
            assert kind == "generic" or json.loads(registry.body)["search"]["profile"] == kind
            await whole(field, path, registry.body, profile, [json.dumps(one).encode() for one in texts])
            taken = await append(field.node, [samples.get(kind, {"a": "b"})], path)
            assert taken.status == 204 or json.loads(registry.body)["currentVersion"], (kind, taken)
            if kind != "generic":
                assert taken.status == 204

    @drawn(CASES["profiles"] // BATCH, batches(PROFILES, BATCH))
    def each(bodies: list[bytes]) -> None:
        field.cases += len(bodies)
        field.run(some(bodies))


METRIC = {"metric": "m", "unit": "u", "windowStart": 1, "windowEnd": 2, "count": 1, "sum": 1}


@pytest.mark.usefixtures("cases")
def test_profiled_entries_are_stored_or_refused(field: Field) -> None:
    size = 40

    async def some(kind: str, entries: list[Any]) -> None:
        path = await field.fresh()
        body = json.dumps({"profile": {"kind": kind}}).encode()
        assert (await field.node.request("POST", f"{path}/_profile", JSON, body)).status == 200
        taken = 0
        for entry in entries:
            sent = entry | METRIC if kind == "metrics" and isinstance(entry, dict) else entry
            taken += checked(await append(field.node, [sent], path)).status == 204
        shown = await field.get(path)
        assert (shown.status, len(json.loads(shown.body))) == (200, taken)
        answers = [
            checked(await field.get(f"{path}?{query}"), 400) for query in ("key=a", "filter=has:metric", "since=1")
        ]
        assert answers[2].body == shown.body

    @drawn(CASES["profiled"] // 2 // size, batches(st.one_of(evlog_entries, values, CONFIGS), size))
    def each(entries: list[Any]) -> None:
        for kind in ("evlog", "metrics"):
            field.cases += len(entries)
            field.run(some(kind, entries))


@pytest.mark.usefixtures("cases")
def test_selections_of_any_kind_are_answered(field: Field) -> None:
    paths = field.run(odd(field))
    before = {path: field.run(field.get(f"{path}?format=raw")).body for path in paths}
    one = st.fixed_dictionaries({}, optional={"filter": TEXTS, "key": TEXTS, "since": TEXTS})
    rests = st.sampled_from(["", "&format=raw", "&offset=-1", "&offset=-1&live=long-poll&timeout=0", "&max_bytes=1"])

    async def some(selections: list[tuple[dict[str, bytes], str, str]]) -> None:
        for asked, rest, path in selections:
            query = "&".join(f"{name}={quote_from_bytes(text)}" for name, text in asked.items()) + rest
            answer = checked(await field.get(f"{path}?{query}"))
            if answer.status == 200 and "raw" not in rest:
                assert (answer.body[:1], answer.body[-1:]) == (b"[", b"]")
                assert "stream-next-offset" in answer.headers
            key = asked.get("key")
            if key:
                checked(await field.get(f"{path}/pk/{quote_from_bytes(key, safe='')}?{rest[1:]}"))

    @drawn(CASES["selections"] // BATCH, batches(st.tuples(one, rests, st.sampled_from(paths)), BATCH))
    def each(selections: list[tuple[dict[str, bytes], str, str]]) -> None:
        field.cases += len(selections)
        field.run(some(selections))

    for path in paths:
        assert field.run(field.get(f"{path}?format=raw")).body == before[path]


async def odd(field: Field) -> list[str]:
    """Streams with entries that one parser takes and another refuses, in the bucket and in the log."""
    paths = [await field.fresh(), await field.fresh()]
    for again in range(2):
        for path in paths:
            for entry in ODD:
                await field.node.request("POST", path, JSON | {"stream-key": "k"}, b"[%b]" % entry)
            if not again and path == paths[0]:
                # Its entries are older than any schema; the other one has one from its first entry on.
                assert (
                    await update(field.node, {"routingKey": {"jsonPointer": "/service", "required": False}}, path)
                ).status == 200
        if not again:
            await field.publish()
    third = await field.fresh()
    assert (await update(field.node, {"schema": True, "search": SEARCH}, third)).status == 200
    for _ in range(2):
        for entry in ODD:
            await field.node.request("POST", third, JSON, b"[%b]" % entry)
        await field.publish()
    for entry in ODD:
        await field.node.request("POST", third, JSON, b"[%b]" % entry)
    return [*paths, third]


@pytest.mark.usefixtures("cases")
def test_operations_of_the_interface_are_answered(field: Field) -> None:
    api = schemathesis.openapi.from_dict(json.loads(document(resources.HANDLERS)))
    known = {found.label: found for found in (each.ok() for each in api.get_all_operations() if isinstance(each, Ok))}
    labels = [f"{method} {root}{sub}" for root in ROOTS for method, sub in SUBS]
    assert set(labels) <= set(known)
    size = 5
    examples = -(-CASES["operations"] // len(labels) // size)

    async def some(drawn_cases: list[Any]) -> None:
        path = await field.sown()
        name = path.rpartition("/")[2]
        texts = [json.dumps(one).encode() for one in (*SEALED, FRESH)]
        registry, profile = (await field.get(f"{path}/_schema")).body, (await field.get(f"{path}/_profile")).body
        for case in drawn_cases:
            ours = {"path": name, "bucket": "_default", "stream": name}
            case.path_parameters = {at: ours.get(at, value) for at, value in (case.path_parameters or {}).items()}
            answer = checked(await sent(field, case), *OTHERS)
            what = case.operation.path.rpartition("/")[2]
            if answer.status in {200, 204} and case.method == "POST" and what != "check":
                registry = answer.body if what == "_schema" else (await field.get(f"{path}/_schema")).body
                profile = answer.body if what == "_profile" else (await field.get(f"{path}/_profile")).body
                if what not in {"_schema", "_profile"}:
                    texts = [(await field.get(f"{path}?format=raw")).body]
        await whole(field, path, registry, profile, texts)

    for label in labels:

        @drawn(examples, batches(known[label].as_strategy(), size))
        def each(drawn_cases: list[Any]) -> None:
            field.cases += len(drawn_cases)
            field.run(some(drawn_cases))


ROOTS = ("/v1/stream/{path}", "/{bucket}/{stream}")
SUBS = (("GET", "/_schema"), ("POST", "/_schema"), ("POST", "/_schema/check"), ("GET", "/_profile"),
        ("POST", "/_profile"), ("GET", ""), ("POST", ""), ("GET", "/pk/{key}"))  # fmt: skip
OTHERS = (304, 404, 409, 410, 413, 415, 416, 501)


async def sent(field: Field, case: Any) -> Any:
    """As it stands on the wire; what cannot be written there is left out."""
    asked = dict(case.query or {})
    if asked.get("live") == "sse":  # it would have no end; tests/http has cases of its own
        asked["live"] = "long-poll"
    query = "&".join(f"{quote(name)}={quote(str(value), safe='')}" for name, value in asked.items())
    headers = {}
    for name, value in (case.headers or {}).items():
        if name.lower() != "authorization" and str(value).isascii() and str(value).isprintable():
            headers[name] = str(value).strip()
    body = (
        b""
        if isinstance(case.body, NotSet)
        else case.body
        if isinstance(case.body, bytes)
        else json.dumps(case.body).encode()
    )
    if body and "content-type" not in {name.lower() for name in headers}:
        headers["content-type"] = case.media_type or "application/json"
    target = case.operation.path
    for name, value in (case.path_parameters or {}).items():
        target = target.replace(f"{{{name}}}", quote(unquote(str(value)), safe=""))
    return await field.node.request(case.method, f"{target}?{query}" if query else target, headers, body)
