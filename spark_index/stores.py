"""Opens the bucket of a claim or of a query. Credentials are the process's own: none ever comes with the address."""

from functools import cache
from pathlib import Path

import msgspec

from indexers.messages import StoreAt
from streams_node.errors import StoreRefused
from streams_node.objects import FolderStore, ObjectStore, RequestCounts, RetryingStore
from streams_node.objects.keys import root_prefix

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


def open_at(at: StoreAt, keys: Keys | None = None) -> RetryingStore:
    """A store of one's own; blocks."""
    return RetryingStore(_bare(at, keys), RequestCounts())


@cache
def shared(at: StoreAt, keys: Keys | None = None) -> RetryingStore:
    """One for each address and process: a client of S3 takes 0.1 s to make."""
    return open_at(at, keys)


def _bare(at: StoreAt, keys: Keys | None) -> ObjectStore:
    if at.kind == "folder":
        folder = Path(at.folder or "")
        if not folder.is_dir():
            raise StoreRefused(f"there is no folder `{folder}` on this machine")
        return FolderStore.open(folder)
    # The SDK takes 0.3 s to load, and a folder needs none of it.
    from streams_node.objects.s3 import S3Address, S3Keys, S3Store  # noqa: PLC0415

    address = S3Address(
        bucket=at.bucket or "",
        root=root_prefix(at.prefix),
        endpoint=at.endpoint,
        region=at.region,
        path_style=at.path_style,
    )
    own = None if keys is None else S3Keys(keys.access_key_id, keys.secret_access_key, keys.session_token)
    return S3Store(address, own, attempt_s=30.0)
