"""What a stream is declared to be: its registry, its profile, and how both are stored."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from streams_node.schema.jsontext import dumps
from streams_node.schema.registry import Registry

GENERIC = "generic"
_DEFAULT_BUCKET = "_default"


class Facts(NamedTuple):
    """What else of a stream a declaration may depend on."""

    bucket: str
    stream: str
    end: int  # the sequence of the next entry
    content_type: str
    is_json: bool

    @property
    def empty(self) -> bool:
        return self.end == 0


class Stored(NamedTuple):
    """The row of a stream, and the kind of its profile."""

    registry: str
    profile: str
    config: str | None


class Standing(NamedTuple):
    """A value: changing it makes another one."""

    registry: Registry
    profile: str = GENERIC
    config: Mapping[str, Any] = {}

    @classmethod
    def new(cls, bucket: str, stream: str) -> "Standing":
        """Of a stream of which nothing was ever declared."""
        return cls(Registry(name_of(bucket, stream)))

    def encode(self) -> Stored:
        config = dumps(dict(self.config)).decode() if self.config else None
        return Stored(self.registry.encode().decode(), self.profile, config)


def name_of(bucket: str, stream: str) -> str:
    """The name of a stream in its registry: as in its `/v1` path."""
    return stream if bucket == _DEFAULT_BUCKET else f"{bucket}/{stream}"
