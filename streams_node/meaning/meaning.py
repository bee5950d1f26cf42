"""A standing made ready: everything compiled that writes and reads of the stream need."""

from collections import OrderedDict
from copy import copy
from dataclasses import replace
from threading import Lock
from typing import Any

from streams_node.errors import StreamsError
from streams_node.meaning.standing import Standing, Stored
from streams_node.profiles import Normaliser, normaliser
from streams_node.schema.jsontext import dumps
from streams_node.schema.lens import Lens, lens_of
from streams_node.schema.promotion import Promoter
from streams_node.schema.registry import Boundary, Registry
from streams_node.schema.validation import Validator

_BASE_BYTES = 2000
_COMPILED = 5  # times the size of the text
_KEPT = 256  # validators that are shared; one that falls out lives on where it is used


class Meaning:
    """Immutable. `problem` is why a stored one cannot be used: its stream answers with it, and others go on."""

    __slots__ = ("checks", "hook", "problem", "promoter", "registry", "size", "standing", "stored",
                 "validator")  # fmt: skip

    def __init__(self, standing: Standing, stored: Stored, problem: StreamsError | None = None) -> None:
        registry: Registry = standing.registry
        version = registry.current_version
        self.standing, self.stored, self.problem = standing, stored, problem
        self.registry = registry
        self.validator = _shared(registry.schemas[version]) if version else None
        lenses: dict[int, Lens] = {at: lens_of(document) for at, document in registry.lenses.items()}
        self.promoter = Promoter(lenses, version)
        self.hook: Normaliser | None = normaliser(standing.profile, standing.config)
        # Whether appends have to be looked at; a registry can be left with nothing in it.
        self.checks = bool(
            problem or self.validator is not None or self.hook is not None or registry.routing_key is not None
        )
        self.size = _BASE_BYTES + _COMPILED * (len(stored.registry) + len(stored.config or ""))

    def beginning_at(self, seq: int) -> "Meaning":
        """The same, where the current version begins at another entry; nothing is compiled again."""
        boundaries = (*self.registry.boundaries[:-1], Boundary(seq, self.version))
        standing = self.standing._replace(registry=replace(self.registry, boundaries=boundaries))
        moved = copy(self)
        moved.standing, moved.registry, moved.stored = standing, standing.registry, standing.encode()
        return moved

    @property
    def version(self) -> int:
        return self.registry.current_version

    def promotes(self, seq: int) -> bool:
        """Whether the entry is of an older version: it is not shown as it is stored."""
        return seq < self.registry.current_from or self.problem is not None


_validators: OrderedDict[bytes, Validator] = OrderedDict()
_lock = Lock()


def _shared(schema: Any) -> Validator:
    """The validator of a schema: many streams of one profile have the same."""
    text = dumps(schema)
    with _lock:
        known = _validators.get(text)
        if known is not None:
            _validators.move_to_end(text)
            return known
    made = Validator(schema)
    with _lock:
        _validators[text] = made
        if len(_validators) > _KEPT:
            _validators.popitem(last=False)
    return made
