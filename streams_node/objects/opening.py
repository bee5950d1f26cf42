"""From settings to a store that may be trusted."""

import secrets
from collections.abc import Iterator

from streams_node.config import Settings
from streams_node.errors import StoreRefused
from streams_node.objects.counts import RequestCounts
from streams_node.objects.folder import FolderStore
from streams_node.objects.keys import object_id, root_prefix
from streams_node.objects.memory import MemoryStore
from streams_node.objects.probe import require_conditions
from streams_node.objects.protocol import ObjectStore
from streams_node.objects.retry import RetryingStore, RetryPolicy


def open_store(settings: Settings, counts: RequestCounts | None = None) -> RetryingStore:
    """The store of these settings, after it showed that it honours conditions; blocks, so never on an event loop."""
    store = connect(settings, counts)
    try:
        require_conditions(store, object_id(secrets.token_bytes(16)))
    except BaseException:
        store.close()
        raise
    return store


def connect(settings: Settings, counts: RequestCounts | None = None) -> RetryingStore:
    """The store of these settings, not asked yet what it can do."""
    policy = RetryPolicy(settings.object_store_attempts_max, total_ms_max=settings.object_store_retry_ms_max)
    return RetryingStore(_bare(settings), counts or RequestCounts(), policy)


def _bare(settings: Settings) -> ObjectStore:
    match settings.object_store:
        case "folder":
            return FolderStore.open(settings.objects_folder)
        case "memory":
            return MemoryStore()
        case "s3":
            return _s3(settings)


def _s3(settings: Settings) -> ObjectStore:
    problems = list(_s3_problems(settings))
    if problems:
        raise StoreRefused("; ".join(problems))
    # The SDK takes 0.3 s to load, and a folder needs none of it.
    from streams_node.objects.s3 import S3Address, S3Keys, S3Store  # noqa: PLC0415

    address = S3Address(
        bucket=settings.s3_bucket or "",
        root=root_prefix(settings.s3_prefix),
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        path_style=settings.s3_path_style,
        encryption=None if settings.s3_encryption == "none" else settings.s3_encryption,
        kms_key=settings.s3_kms_key,
    )
    keys = None
    if settings.s3_access_key_id and settings.s3_secret_access_key:
        token = settings.s3_session_token
        keys = S3Keys(
            settings.s3_access_key_id.get_secret_value(),
            settings.s3_secret_access_key.get_secret_value(),
            token.get_secret_value() if token else None,
        )
    return S3Store(address, keys, attempt_s=settings.object_store_attempt_ms_max / 1000)


def _s3_problems(settings: Settings) -> Iterator[str]:
    if not settings.s3_bucket:
        yield "s3_bucket: missing; object_store=s3 needs the name of a bucket"
    if (settings.s3_access_key_id is None) != (settings.s3_secret_access_key is None):
        yield "s3_access_key_id and s3_secret_access_key: set both, or none to use what the AWS SDK finds"
    if settings.s3_session_token is not None and settings.s3_access_key_id is None:
        yield "s3_session_token: belongs to s3_access_key_id, which is not set"
    if settings.s3_kms_key is not None and settings.s3_encryption != "aws:kms":
        yield "s3_kms_key: only used with s3_encryption=aws:kms"
