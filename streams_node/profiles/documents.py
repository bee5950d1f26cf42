"""Profile documents: what a client sends, what it is told, and the text a stream keeps.

{"apiVersion": "durable.streams/profile/v1", "profile": {"kind": "evlog", "redactKeys": ["pin"]}}
kept with the stream, in the log's database and in the catalogue:       evlog {"redactKeys":["pin"]}
without a configuration:                                                evlog
"""

import json
from typing import Any, NamedTuple

from streams_node.errors import BadProfile, NotImplementedYet
from streams_node.profiles import evlog, shapes

API_VERSION = "durable.streams/profile/v1"
KINDS = ("evlog", "generic", "metrics", "otel-traces", "state-protocol")
LATER = frozenset(("otel-traces", "state-protocol"))
JSON_ONLY = frozenset(KINDS) - {"generic"}
EMPTY_ONLY = frozenset(("evlog", "metrics", "otel-traces"))
_DOCUMENT = "profileUpdate"


class Profile(NamedTuple):
    """A kind, and its configuration in normal form."""

    kind: str
    config: dict[str, Any]

    @property
    def document(self) -> dict[str, Any]:
        """What `_profile` answers."""
        return {"apiVersion": API_VERSION, "profile": {"kind": self.kind, **self.config}}


GENERIC = Profile("generic", {})


def parse(body: bytes) -> Profile:
    """What a client asks for, or why it cannot have that."""
    try:
        raw = json.loads(body.decode("utf-8"), parse_constant=_no_constant, parse_int=_bounded)
    except (ValueError, RecursionError):
        raise BadProfile("profile update must be valid JSON") from None
    if not isinstance(raw, dict):
        raise BadProfile("profile update must be a JSON object")
    members = shapes.members(raw, _DOCUMENT, ("apiVersion", "profile"))
    if members.get("apiVersion", API_VERSION) != API_VERSION:
        raise BadProfile("invalid profile apiVersion")
    if "profile" not in members:
        raise BadProfile("missing profile")
    return _profile(members["profile"])


def _profile(raw: object) -> Profile:
    if not isinstance(raw, dict):
        raise BadProfile("profile must be an object")
    kind = raw.get("kind")
    if not isinstance(kind, str) or not kind.strip():
        raise BadProfile("profile.kind must be a non-empty string")
    if kind not in KINDS:
        raise BadProfile(f"profile.kind must be {'|'.join(KINDS)}")
    if kind in LATER:
        raise NotImplementedYet(f"profile `{kind}` is not there yet; this node has evlog, generic and metrics")
    config = {name: value for name, value in raw.items() if name != "kind"}
    allowed = ("redactKeys", "correlation", "observability") if kind == "evlog" else ()
    shapes.members(config, "profile", allowed)
    parsed = Profile(kind, evlog.parse_config(config) if kind == "evlog" else {})
    _check_encodable(parsed.config)
    return parsed


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _bounded(digits: str) -> int:
    """No member is a number: whatever it was, it is refused by its type, and not for being long."""
    return int(digits[:16])


def _check_encodable(config: dict[str, Any]) -> None:
    try:
        json.dumps(config, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadProfile("profile must not hold half of a surrogate pair") from None
