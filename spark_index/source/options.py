"""The options of a query, checked at once: an unknown or a wrong one is refused before anything is read."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from indexers.messages import StoreAt
from spark_index.address import Keys, store_at

_NAMES = {
    "store", "endpoint", "region", "path_style", "access_key_id", "secret_access_key", "session_token",
    "stream", "json", "startingoffsets", "maxentriespertrigger", "partitionbytes", "path",
}  # fmt: skip
_DEFAULT_BUCKET = "_default"
_PARTITION_BYTES = 32 << 20
_PARTITION_BYTES_MIN = 1 << 16


class Options(NamedTuple):
    store: StoreAt
    keys: Keys | None
    pattern: str  # of `bucket/stream`, as GLOB has it: `*` also crosses slashes
    json: bool
    from_latest: bool
    entries_max: int | None
    partition_bytes: int


def options_of(given: Mapping[str, str]) -> Options:
    """From what `option(…)` said; names are case-insensitive."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - _NAMES)
    if unknown:
        raise ValueError(f"unknown options of `streams`: {', '.join(unknown)}")
    store = options.get("store") or options.get("path")
    if not store:
        raise ValueError('the option "store" is missing: folder:/path or s3://bucket/prefix')
    at = msgspec.structs.replace(
        store_at(store),
        endpoint=options.get("endpoint"),
        region=options.get("region"),
        path_style=_flag(options, "path_style", default="endpoint" in options),
    )
    start = options.get("startingoffsets", "earliest")
    if start not in {"earliest", "latest"}:
        raise ValueError(f'"startingOffsets" must be earliest or latest, not `{start}`')
    entries_max = _number(options, "maxentriespertrigger", 1)
    return Options(
        store=at,
        keys=_keys(options),
        pattern=pattern_of(options.get("stream", "*/*")),
        json=_flag(options, "json", default=False),
        from_latest=start == "latest",
        entries_max=entries_max,
        partition_bytes=_number(options, "partitionbytes", _PARTITION_BYTES_MIN) or _PARTITION_BYTES,
    )


def pattern_of(stream: str) -> str:
    """The first part of a name is its bucket, as in `/v1/stream/…`; a name without a slash is of the default one."""
    return stream if "/" in stream else f"{_DEFAULT_BUCKET}/{stream}"


def _keys(options: Mapping[str, str]) -> Keys | None:
    key, secret = options.get("access_key_id"), options.get("secret_access_key")
    if (key is None) != (secret is None):
        raise ValueError('set both "access_key_id" and "secret_access_key", or none to use what the AWS SDK finds')
    if key is None or secret is None:
        return None
    return Keys(access_key_id=key, secret_access_key=secret, session_token=options.get("session_token"))


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, "").lower()
    if text not in {"", "true", "false"}:
        raise ValueError(f'"{name}" must be true or false, not `{options[name]}`')
    return default if not text else text == "true"


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise ValueError(f'"{name}" must be a whole number from {least} on, not `{text}`')
    return int(text)
