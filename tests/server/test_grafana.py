"""The dashboard and the alerts ask for numbers that a node really has, under the labels that they have."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streams_node.http.gauges import register
from tests.docs.test_manual import ROOT
from tests.http.wire import ask
from tests.indexing.world import KEYED, SEARCH, FakeDriver, append, create, indexed, sealed

FOLDER = ROOT / "ops" / "grafana"
# What Prometheus puts on every series of a node.
SCRAPED = {"job", "instance"}
FUNCTIONS = {"sum", "max", "min", "rate", "increase", "deriv", "changes", "histogram_quantile", "label_values"}
WORDS = {"by", "and", "or", "unless", "on", "ignoring", "without"}
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(?:\{([^{}]*)\})?")
GROUPED = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^()]*)\)")

Samples = dict[str, set[str]]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """The names of all samples of a node at work, each with the names of its labels."""

    async def scrape() -> bytes:
        async with indexed(tmp_path_factory.mktemp("grafana") / "node") as node:
            register(node.context.metrics, node.context, node.context.connections)
            path = "/v1/stream/a"
            await create(node, path, KEYED | {"search": SEARCH})
            await append(node, path, [{"k": "x", "text": "some words", "at": "2026-01-01T00:00:00Z"}])
            await sealed(node)
            await FakeDriver(node).finish()
            for asked in (path, f"{path}/_search?q=words"):
                assert (await ask(node, "GET", asked)).status == 200
            node.context.metrics.count_refusal("overloaded")
            return (await ask(node, "GET", "/metrics")).body

    found: Samples = {}
    for family in text_string_to_metric_families(asyncio.run(scrape()).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def dashboard() -> Any:
    return json.loads((FOLDER / "dashboard.json").read_text("utf-8"))


def asked_by_dashboard() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"].partition(",")[0] + ")"


def alerts() -> list[dict[str, str]]:
    """Of the file, which is as plain as YAML can be: a key and a value a line."""
    found: list[dict[str, str]] = []
    for line in (FOLDER / "alerts.yml").read_text("utf-8").splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(": ")
        if key == "alert":
            found.append({})
        if found and value:
            found[-1][key] = json.loads(value) if value.startswith('"') else value
    return found


EXPRESSIONS = [*asked_by_dashboard(), *((each["alert"], each["expr"]) for each in alerts())]


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_what_is_asked_for_exists(samples: Samples, where: str, expression: str) -> None:
    asked = list(selectors(expression))
    assert asked, where
    for name, labels in asked:
        assert name in samples, (where, name)
        assert labels - SCRAPED <= samples[name], (where, name, labels)
    every = set().union(*(samples[name] for name, _ in asked)) | SCRAPED
    assert grouped(expression) <= every, where


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_a_quantile_is_of_buckets_and_a_rate_of_what_only_grows(where: str, expression: str) -> None:
    """A rate of a level, or a level of a counter, is a graph that means nothing."""
    balanced = STRING.sub("", expression)
    for opening, closing in ("()", "{}", "[]"):
        assert balanced.count(opening) == balanced.count(closing), where
    for function, name in re.findall(r"\b(rate|increase)\(([\w:]+)", expression):
        assert name.endswith(("_total", "_bucket")), (where, function)
    for name in re.findall(r"(?<![\w(])(streams_\w+_total)", expression):
        assert re.search(rf"(?:rate|increase)\({name}", expression), where
    if "histogram_quantile" in expression:
        assert "_bucket" in expression
        assert "le" in grouped(expression)


def test_the_parser_of_these_tests_finds_what_is_wrong(samples: Samples) -> None:
    for expression, name in (
        ("sum(rate(streams_no_such_total[5m]))", "streams_no_such_total"),
        ("streams_x > 3", "streams_x"),
    ):
        assert [each for each, _ in selectors(expression)] == [name]
        assert name not in samples
    (found,) = selectors('max by (instance) (streams_fenced{job="a b{",mode=~"x"}) == 1')
    assert found == ("streams_fenced", {"job", "mode"})


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    found = alerts()
    assert len(found) >= 10
    assert len({each["alert"] for each in found}) == len(found)
    for each in found:
        assert each["severity"] in {"warning", "critical"}
        assert re.fullmatch(r"\d+[mh]", each["for"])
        assert each["summary"].endswith(".")
        assert each["description"].endswith(".")


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of an expression, each with the labels that it is chosen by."""
    bare = GROUPED.sub(" ", re.sub(r"\[[^\]]*\]", "", STRING.sub('""', expression)))
    for name, matchers in SELECTOR.findall(bare):
        if name not in FUNCTIONS | WORDS and not name.isdigit():
            yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))


def grouped(expression: str) -> set[str]:
    return {label.strip() for labels in GROUPED.findall(expression) for label in labels.split(",") if label.strip()}


def test_the_folder_holds_what_the_manual_names() -> None:
    page = (ROOT / "streams_node" / "docs" / "observe.md").read_text("utf-8")
    for path in sorted(Path(FOLDER).iterdir()):
        assert f"ops/grafana/{path.name}" in page
