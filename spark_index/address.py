"""The address of a bucket, as an option of a query names it, and credentials of its own. Cheap to import."""

from pathlib import Path

import msgspec

from indexers.messages import StoreAt
from streams_node.errors import StoreRefused

_SCHEMES = "folder:/path or s3://bucket/prefix"


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of a query that names its own; else the SDK looks where it always looks."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


def store_at(text: str) -> StoreAt:
    """The address in an option: `folder:/path` or `s3://bucket/prefix`."""
    scheme, _, rest = text.partition(":")
    match scheme:
        case "folder" if Path(rest.removeprefix("//")).is_absolute():
            return StoreAt(kind="folder", folder=str(Path(rest.removeprefix("//"))))
        case "s3" | "s3a" if rest.startswith("//") and rest.strip("/"):
            bucket, _, prefix = rest.removeprefix("//").partition("/")
            return StoreAt(kind="s3", bucket=bucket, prefix=prefix)
    raise StoreRefused(f"`store` must be {_SCHEMES}, with an absolute path, not `{text}`")
