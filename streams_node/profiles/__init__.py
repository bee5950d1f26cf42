"""What a stream means: `generic` (nothing), `evlog` (wide request events), `metrics` (intervals of series).

    parse(body)            what a client posts to `_profile` -> Profile, or the refusal that it sees
    normaliser(kind, …)    how the entries of an append become what is stored; None when they stay as they are
    installed(kind)        the update of the schema registry that goes with a kind; None when it has none

Owns     profile documents, the normalisation of entries, the keys derived from them, and the registries of profiles.
Keeps    pure: bytes and values in, bytes and values out, the time given from outside. What is stored of a number is
         what was sent, digit for digit. Normalising what was normalised changes nothing, unless ids are taken from
         places of one's own. No value of a redacted member is left, at any depth.
Dies     holds no state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streams_node.profiles import registries
from streams_node.profiles.documents import (
    EMPTY_ONLY,
    GENERIC,
    JSON_ONLY,
    KINDS,
    Profile,
    parse,
)
from streams_node.profiles.evlog import Evlog
from streams_node.profiles.metrics import normalise as normalise_metrics

# (entries, now in microseconds) -> (entries as stored, a routing key for each that has one)
Normaliser = Callable[[Sequence[bytes], int], tuple[list[bytes], list[str | None]]]

__all__ = [
    "EMPTY_ONLY", "GENERIC", "JSON_ONLY", "KINDS", "Normaliser", "Profile", "installed", "normaliser", "parse",
]  # fmt: skip


def normaliser(kind: str, config: Mapping[str, Any]) -> Normaliser | None:
    """How entries of a stream with this profile are stored."""
    if kind == "evlog":
        return Evlog(config)
    return normalise_metrics if kind == "metrics" else None


def installed(kind: str) -> dict[str, Any] | None:
    """The schema, routing key and search that are installed with a profile, as an update of the registry."""
    if kind == "evlog":
        return registries.evlog()
    return registries.metrics() if kind == "metrics" else None
