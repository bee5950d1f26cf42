"""The registry of a stream: its schemas version by version, where each one begins, the lenses between them, where the
routing key stands, and what can be searched.

    parse_update(body)               an untrusted update, checked as far as it can be alone
    evolved(registry, update, end)   the registry after it, for a stream that ends before the sequence `end`
    common_text(document)            what a registry shares with those of streams that are declared alike

Keeps    a registry is a value: an update makes another one. Version 1 begins at 0; every later version at the first
         entry after its update. Versions are never taken back.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streams_node.schema import lens as lenses
from streams_node.schema import routing, search_config
from streams_node.schema.errors import LensVersionMismatch, SchemaRefused
from streams_node.schema.jsontext import BadJson, dumps, loads
from streams_node.schema.lens import Lens
from streams_node.schema.proof import prove
from streams_node.schema.routing import RoutingKey
from streams_node.schema.search_config import SearchConfig, SearchConfigError
from streams_node.schema.validation import compiled

API_VERSION = "durable.streams/schema-registry/v1"
BYTES_MAX = 1 << 20  # of a whole registry
VERSIONS_MAX = 1000
OFFSET_MAX = 2**53 - 1
_MEMBERS = ("apiVersion", "schema", "lens", "routingKey", "search")


class Absent:
    """The update does not have this member; null is something else."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Boundary:
    offset: int
    version: int


@dataclass(frozen=True, slots=True)
class Registry:
    """`schemas` and `lenses` are plain documents, as they are stored and shown."""

    name: str
    current_version: int = 0
    routing_key: RoutingKey | None = None
    search: SearchConfig | None = None
    boundaries: tuple[Boundary, ...] = ()
    schemas: Mapping[int, Any] = field(default_factory=dict)
    lenses: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def version_of(self, seq: int) -> int:
        """The version that an entry was validated by; 0 before the first schema."""
        at = bisect_right(self.boundaries, seq, key=lambda boundary: boundary.offset)
        return self.boundaries[at - 1].version if at else 0

    @property
    def current_from(self) -> int:
        """The first sequence of the current version; 0 where there is none."""
        return self.boundaries[-1].offset if self.boundaries else 0

    def document(self) -> dict[str, Any]:
        """As clients see it."""
        key, search = self.routing_key, self.search
        return {
            "apiVersion": API_VERSION,
            "schema": self.name,
            "currentVersion": self.current_version,
            **({} if key is None else {"routingKey": key.document()}),
            **({} if search is None else {"search": dict(search.document)}),
            "boundaries": [{"offset": each.offset, "version": each.version} for each in self.boundaries],
            "schemas": {str(version): schema for version, schema in self.schemas.items()},
            "lenses": {str(version): lens for version, lens in self.lenses.items()},
        }

    def encode(self) -> bytes:
        return dumps(self.document())


@dataclass(frozen=True, slots=True)
class Update:
    """A body of POST `_schema`. Members that it does not have are ABSENT; a member that is null takes something out."""

    schema: Any = ABSENT
    lens: Any = ABSENT
    routing_key: RoutingKey | Absent | None = ABSENT
    search: SearchConfig | Absent | None = ABSENT


def common_text(document: Mapping[str, Any]) -> bytes:
    """All of a registry but the name of its stream and where its versions begin."""
    lenses = {at: {**lens, "schema": None} for at, lens in document["lenses"].items()}
    versions = document["currentVersion"], document["schemas"], lenses
    return dumps([*versions, document.get("routingKey"), document.get("search")])


def like(other: Registry, name: str, boundaries: tuple[Boundary, ...]) -> Registry:
    """The registry of a stream that is declared as another one: what they have in common is there once."""
    lenses = {at: {**lens, "schema": name} for at, lens in other.lenses.items()} or other.lenses
    return replace(other, name=name, boundaries=boundaries, lenses=lenses)


def boundaries_of(document: Mapping[str, Any]) -> tuple[Boundary, ...]:
    """Where the versions of a stored registry begin."""
    return tuple(Boundary(each["offset"], each["version"]) for each in document["boundaries"])


def decode(raw: Mapping[str, Any]) -> Registry:
    """A registry as it was stored."""
    key, search = raw.get("routingKey"), raw.get("search")
    return Registry(
        raw["schema"],
        raw["currentVersion"],
        None if key is None else routing.parse(key),
        None if search is None else search_config.parse(search),
        boundaries_of(raw),
        {int(version): schema for version, schema in raw["schemas"].items()},
        {int(version): lens for version, lens in raw["lenses"].items()},
    )


def parse_update(body: bytes) -> Update:
    """An update, or the first thing that is wrong with it alone."""
    try:
        raw = loads(body)
    except BadJson:
        raise SchemaRefused("schema update must be valid JSON") from None
    if not isinstance(raw, dict):
        raise SchemaRefused("schema update must be a JSON object")
    for name in raw:
        if name not in _MEMBERS:
            raise SchemaRefused(f"schemaUpdate.{name[:64]} is not supported")
    if raw.get("apiVersion", API_VERSION) != API_VERSION:
        raise SchemaRefused("invalid schema apiVersion")
    if not raw.keys() & {"schema", "routingKey", "search"}:
        raise SchemaRefused("schema update must include schema, routingKey, or search")
    if "lens" in raw and "schema" not in raw:
        raise SchemaRefused("schema update lens requires schema")
    return Update(
        raw.get("schema", ABSENT), raw.get("lens", ABSENT), _routing_key(raw), _search(raw.get("search", ABSENT))
    )


def _routing_key(raw: Mapping[str, Any]) -> RoutingKey | Absent | None:
    given = raw.get("routingKey", ABSENT)
    if given is None and "schema" in raw:
        raise SchemaRefused("schema update routingKey must be an object when schema is provided")
    return given if given is None or isinstance(given, Absent) else routing.parse(given)


def _search(given: Any) -> SearchConfig | Absent | None:
    if given is None or isinstance(given, Absent):
        return given
    try:
        return search_config.parse(given)
    except SearchConfigError as problem:
        raise SchemaRefused(str(problem)) from None


def evolved(registry: Registry, update: Update, end: int) -> Registry:
    """The registry after an update that comes before the entry `end`."""
    changed = _evolved(registry, update, end)
    if len(changed.encode()) > BYTES_MAX:
        raise SchemaRefused(f"schema registry is larger than {BYTES_MAX} bytes")
    return changed


def _evolved(registry: Registry, update: Update, end: int) -> Registry:
    if isinstance(update.schema, Absent):
        return _without_schema(registry, update)
    if end > OFFSET_MAX:
        raise SchemaRefused("offset exceeds MAX_SAFE_INTEGER")
    if registry.current_version == 0:
        return _installed(registry, update, end)
    return _next(registry, update, end)


def _without_schema(registry: Registry, update: Update) -> Registry:
    key, search = update.routing_key, update.search
    if isinstance(search, Absent):
        return registry if isinstance(key, Absent) else replace(registry, routing_key=key)
    if not isinstance(key, Absent):
        raise SchemaRefused("missing schema")
    if search is not None and registry.current_version == 0:
        raise SchemaRefused("search config requires an installed schema version")
    return replace(registry, search=search)


def _installed(registry: Registry, update: Update, end: int) -> Registry:
    if end != 0:
        raise SchemaRefused("first schema requires empty stream")
    if not isinstance(update.lens, Absent):
        _check_step(lenses.parse(update.lens), 0)
    compiled(update.schema)
    key, search = update.routing_key, update.search
    return replace(
        registry,
        current_version=1,
        routing_key=None if isinstance(key, Absent) else key,
        search=registry.search if isinstance(search, Absent) else search,
        boundaries=(Boundary(0, 1),),
        schemas={1: update.schema},
    )


def _next(registry: Registry, update: Update, end: int) -> Registry:
    version = registry.current_version
    if isinstance(update.lens, Absent) or update.lens is None:
        raise SchemaRefused("lens required")
    if version >= VERSIONS_MAX:
        raise SchemaRefused(f"schema registry has {version} versions already; none can be added")
    given: Lens = lenses.parse(update.lens)
    _check_step(given, version)
    if given.schema != registry.name:
        raise SchemaRefused("lens schema mismatch")
    compiled(update.schema)
    proven = prove(given, registry.schemas[version], update.schema)
    key, search = update.routing_key, update.search
    return replace(
        registry,
        current_version=version + 1,
        routing_key=registry.routing_key if isinstance(key, Absent) else key,
        search=registry.search if isinstance(search, Absent) else search,
        boundaries=(*registry.boundaries, Boundary(end, version + 1)),
        schemas={**registry.schemas, version + 1: update.schema},
        lenses={**registry.lenses, version: proven},
    )


def _check_step(given: Lens, version: int) -> None:
    if (given.from_version, given.to_version) != (version, version + 1):
        raise LensVersionMismatch("lens version mismatch")
