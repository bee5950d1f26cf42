"""Which index families a stream has, and under which configuration each of them was or will be built.

A configuration is known by its hash. What an index holds depends on nothing else of the stream's declarations, so a
part that was built under an equal hash still serves, whatever else has changed since.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from search.language import fields, query
from streams_node.schema.registry import Registry
from streams_node.schema.search_config import Count, Kind, SearchConfig, Summary

Family = Literal["lexicon", "exact", "companion", "rollups", "metrics"]
FAMILIES: tuple[Family, ...] = get_args(Family)
METRICS = "metrics"  # the profile whose records have blocks of their own
_HASH_DIGITS = 32
# What a hash is of. A newer one begins with its number: `sql/queries/index.sql` finds the plans of older ones by that.
_FORMATS: Mapping[Family, int] = {"lexicon": 1, "exact": 1, "companion": 2, "rollups": 3, "metrics": 1}


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """`configs` has the configured families only: family -> hash of its configuration."""

    configs: Mapping[Family, str]

    def __bool__(self) -> bool:
        return bool(self.configs)


def plan_of(registry: Registry, profile: str, *, is_json: bool) -> IndexPlan:
    """The plan of a stream as it is declared now."""
    documents: dict[Family, Any] = {}
    if registry.routing_key is not None:
        documents["lexicon"] = {}  # of the keys as they were appended: where they were found does not matter
    search = registry.search
    if is_json and search is not None:
        if exact := exact_fields(search):
            documents["exact"] = {name: _field(search, name) for name in exact}
        documents["companion"] = {name: _field(search, name) for name in search.fields}
        if search.rollups:
            documents["rollups"] = _rollups(search)
    if is_json and profile == METRICS:
        documents["metrics"] = {}
    # Records are promoted to the current version before anything is read from them.
    version = registry.current_version
    return IndexPlan({family: _hash(family, version, document) for family, document in documents.items()})


def exact_fields(search: SearchConfig) -> list[str]:
    """Fields whose values the exact index holds."""
    return sorted(name for name, field in search.fields.items() if field.exact and field.kind is not Kind.TEXT)


def _rollups(search: SearchConfig) -> Any:
    """The rollups, and the fields that they look at. What an `include` means depends on aliases and default fields."""
    names, includes = set[str](), list[str | None]()
    for rollup in search.rollups.values():
        measures = rollup.measures.values()
        names.update([rollup.timestamp_field, *rollup.dimensions])
        names.update(each.field for each in measures if isinstance(each, Summary))
        includes += [rollup.include, *(each.include for each in measures if isinstance(each, Count))]
    texts = [text for text in includes if text is not None]
    names.update(field.name for text in texts for field in fields(query(text, search)))
    document = [search.document["rollups"], {name: _field(search, name) for name in names}]
    return [*document, dict(search.aliases), search.document.get("defaultFields", [])] if texts else document


def _field(search: SearchConfig, name: str) -> Any:
    return search.document["fields"][name]


def _hash(family: Family, version: int, document: Any) -> str:
    of_records = family != "lexicon"
    text = json.dumps([family, _FORMATS[family], version if of_records else 0, document], sort_keys=True)
    digits = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return digits if _FORMATS[family] == 1 else f"{_FORMATS[family]}-{digits}"
