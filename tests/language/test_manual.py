"""The page about the language: its configuration is one, its queries are queries, its refusals are refused so."""

import json
import re

import pytest

from search.language import QueryError, check_config, filter_, query
from streams_node.schema.search_config import parse
from tests.tidy.conftest import ROOT

PAGE = (ROOT / "streams_node" / "docs" / "query-language.md").read_text("utf-8")
CONFIG = parse(json.loads(re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]))


def rows(heading: str) -> list[list[str]]:
    """The cells of all rows of the table in a section, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.split("\n") if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_the_configuration_is_one() -> None:
    check_config(CONFIG)


@pytest.mark.parametrize("row", rows("Clauses"), ids=lambda row: row[0])
def test_a_query_of_the_page_is_one(row: list[str]) -> None:
    query(row[0].strip("`"), CONFIG)


@pytest.mark.parametrize("row", rows("Filters"), ids=lambda row: row[0])
def test_a_filter_of_the_page_is_one(row: list[str]) -> None:
    filter_(row[0].strip("`"), CONFIG)


@pytest.mark.parametrize("row", rows("Refusals"), ids=lambda row: row[0])
def test_a_refusal_of_the_page_is_one(row: list[str]) -> None:
    text, message, position = row
    with pytest.raises(QueryError) as refused:
        query(text.strip("`"), CONFIG)
    assert (refused.value.message, refused.value.position) == (message, int(position))
