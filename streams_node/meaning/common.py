"""What streams that are declared alike have in common, which is nearly all: parsed and compiled once for all."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from streams_node.profiles import Normaliser, normaliser
from streams_node.schema.jsontext import dumps
from streams_node.schema.lens import Lens, lens_of
from streams_node.schema.promotion import Promoter
from streams_node.schema.registry import Registry, common_text
from streams_node.schema.validation import Validator

_COMPILED = 6  # times the size of the text, which is not kept itself
_BASE_BYTES = 2000
_TAG_BYTES = 12
BYTES_MAX = 32 << 20  # of all that is shared; what is declared beyond it is charged to each of its streams
KNOWN_MAX = 4096
RECENT = 64  # are kept when no stream in memory uses them: the next one comes soon


class Common:
    """Immutable. `registry` is of the first stream that was declared so: its name and boundaries mean nothing."""

    __slots__ = ("__weakref__", "config", "hook", "promoter", "registry", "search_tag", "shared", "size",
                 "validator")  # fmt: skip

    def __init__(self, registry: Registry, profile: str, config: Mapping[str, Any], text_bytes: int) -> None:
        version = registry.current_version
        self.registry, self.config = registry, config
        self.validator = Validator(registry.schemas[version]) if version else None
        lenses: dict[int, Lens] = {at: lens_of(document) for at, document in registry.lenses.items()}
        self.promoter = Promoter(lenses, version)
        self.hook: Normaliser | None = normaliser(profile, config)
        search = b"" if registry.search is None else dumps(dict(registry.search.document))
        self.search_tag = blake2b(search, digest_size=_TAG_BYTES).hexdigest()  # differs where the fields differ
        self.size = _BASE_BYTES + _COMPILED * text_bytes
        self.shared = False


class Commons:
    """All of a node, by what they are made of. Any thread may ask.

    Keeps    one for any number of equal declarations in use, within a bound; it goes when the last stream that has it
             leaves the memory, but for a few that were asked for last.
    """

    def __init__(self, bytes_max: int = BYTES_MAX, known_max: int = KNOWN_MAX) -> None:
        self._known_max = known_max
        self._bytes_max = bytes_max
        self._lock = Lock()
        self._known: WeakValueDictionary[bytes, Common] = WeakValueDictionary()
        self._recent: OrderedDict[bytes, Common] = OrderedDict()
        self.made = 0

    @property
    def size(self) -> int:
        """What it costs to keep all that is shared."""
        return sum(each.size for each in list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def get(
        self, document: Mapping[str, Any], profile: str, config: Mapping[str, Any], decode: Callable[[], Registry]
    ) -> Common:
        """Of a registry as a document. `decode` makes the registry of it, where no stream has it yet."""
        text = dumps([profile, dict(config)]) + common_text(document)
        key = blake2b(text, digest_size=32).digest()
        found = self._find(key)
        if found is None:
            made = Common(decode(), profile, config, len(text))
            found = self._keep(key, made)
        return found

    def _find(self, key: bytes) -> Common | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._touch(key, found)
            return found

    def _keep(self, key: bytes, made: Common) -> Common:
        with self._lock:
            self.made += 1
            other = self._known.get(key)
            if other is not None:  # made by another thread meanwhile
                return other
            while self._recent and self._full(made):
                self._recent.popitem(last=False)
            if not self._full(made):
                made.shared = True
                self._known[key] = made
                self._touch(key, made)
            return made

    def _full(self, made: Common) -> bool:
        return len(self._known) >= self._known_max or self.size + made.size > self._bytes_max

    def _touch(self, key: bytes, common: Common) -> None:
        self._recent[key] = common
        self._recent.move_to_end(key)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)
