"""Opens the bucket of a claim or of a query. Credentials are the process's own: none ever comes with the address."""

from functools import cache
from pathlib import Path

from indexers.messages import StoreAt
from spark_index.address import Keys
from streams_node.errors import StoreRefused
from streams_node.objects import FolderStore, ObjectStore, RequestCounts, RetryingStore
from streams_node.objects.keys import root_prefix


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
