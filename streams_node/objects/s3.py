"""Objects in a bucket of anything that speaks S3, by boto3.

Keeps  one call is one request: the SDK's own retries are off, so that all of them are counted and bounded in one place.
       An attempt that is too late is cancelled, not left behind: sending stops in the middle of the body, which no
       store takes for an object, and receiving stops wherever it is.
       Each put carries the SHA-256 of its bytes for the store to check on arrival, and keeps it with the write id as
       metadata for whoever reads.
"""

import base64
import contextlib
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, cast

import boto3.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.response import StreamingBody
from typing_extensions import Buffer, override
from urllib3.exceptions import HTTPError

from streams_node import __version__
from streams_node.errors import ObjectMissing, StoreCorrupt, StoreRefused, StoreUnsuitable
from streams_node.objects import payload
from streams_node.objects.keys import Key, KeyPrefix, RootPrefix, with_root, without_root
from streams_node.objects.protocol import (
    LIST_KEYS_MAX,
    OBJECT_BYTES_MAX,
    Checksum,
    Data,
    ETag,
    Fetched,
    Listed,
    Page,
    Stored,
    WriteId,
)
from streams_node.objects.s3_errors import Request, translated
from streams_node.protocol.numbers import Micros

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from types_boto3_s3.client import S3Client
    from urllib3 import HTTPResponse

_WRITE_ID = "write-id"  # names of metadata; S3 makes them lower case anyway
_CHECKSUM = "sha256"
_CONNECT_S_MAX = 5.0
_REGION = "us-east-1"  # for a store of one's own, where the region is a word in the signature and nothing else
_CONNECTIONS_MAX = 64  # above the threads of the executors that use a store
_CHUNK_BYTES = 256 * 1024
_SLOWEST_BYTES_PER_S = 1024 * 1024  # an attempt may take longer by the time that its bytes need at this rate


class S3Address(NamedTuple):
    """Where the bucket is and how to ask; no credentials, so it may be shown."""

    bucket: str
    root: RootPrefix = RootPrefix("")
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    encryption: Literal["AES256", "aws:kms"] | None = None
    kms_key: str | None = None


class S3Keys(NamedTuple):
    """Credentials; without them the SDK looks where it always looks: environment, profile, role of the machine."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    @override
    def __repr__(self) -> str:
        return "S3Keys(***)"


class S3Store:
    def __init__(self, address: S3Address, keys: S3Keys | None = None, *, attempt_s: float = 10.0) -> None:
        self._address = address
        self._attempt_s = attempt_s
        try:
            self._client = _client(address, keys, attempt_s)
        except (BotoCoreError, ValueError) as problem:
            raise StoreRefused(f"{self.place}: the settings of s3 cannot work: {problem}") from problem
        self._encryption = _encryption(address)

    @property
    def place(self) -> str:
        where = f" at {self._address.endpoint}" if self._address.endpoint else ""
        return f"s3://{self._address.bucket}/{self._address.root}{where}"

    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        size = payload.size_of(data)
        if size > OBJECT_BYTES_MAX:
            raise StoreRefused(f"object `{key}` has {size} bytes; S3 takes {OBJECT_BYTES_MAX} in one request")
        checksum = payload.checksum_of(data)
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if if_match is None else {"IfMatch": if_match}
        with self._failures("put", key), _Body(data, self._ends(size)) as body:
            answer = self._client.put_object(
                Bucket=self._address.bucket,
                Key=with_root(self._address.root, key),
                Body=cast("IO[bytes]", body),
                ContentLength=size,
                ContentType="application/octet-stream",
                ChecksumSHA256=_base64(checksum),
                Metadata={_WRITE_ID: write_id, _CHECKSUM: checksum},
                **condition,
                **self._encryption,
            )
        return Stored(self._etag(answer.get("ETag")), size, checksum, write_id)

    def get(self, key: Key, start: int = 0, end: int | None = None) -> Fetched:
        whole = start == 0 and end is None
        asked: dict[str, Any] = {} if whole else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        with self._failures("get", key):
            answer = self._client.get_object(
                Bucket=self._address.bucket, Key=with_root(self._address.root, key), **asked
            )
            size = answer["ContentLength"] if whole else self._whole_size(key, answer.get("ContentRange"))
            data = _received(answer["Body"], answer["ContentLength"], self._ends(answer["ContentLength"]))
        return Fetched(data, self._stored(answer.get("ETag"), size, answer.get("Metadata") or {}))

    def head(self, key: Key) -> Stored | None:
        try:
            with self._failures("head", key):
                answer = self._client.head_object(Bucket=self._address.bucket, Key=with_root(self._address.root, key))
        except ObjectMissing:
            return None
        return self._stored(answer.get("ETag"), answer["ContentLength"], answer.get("Metadata") or {})

    def delete(self, key: Key) -> None:
        with self._failures("delete", key):
            self._client.delete_object(Bucket=self._address.bucket, Key=with_root(self._address.root, key))

    def list(self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX) -> Page:
        root = self._address.root
        start: dict[str, Any] = {} if after is None else {"StartAfter": with_root(root, after)}
        with self._failures("list", prefix):
            answer = self._client.list_objects_v2(
                Bucket=self._address.bucket, Prefix=with_root(root, prefix), MaxKeys=limit, **start
            )
            if "IsTruncated" not in answer:
                # A page of some proxy must not pass for an empty bucket.
                raise _BrokenOff("what came is no listing")
        found = answer.get("Contents", [])
        objects = tuple(
            Listed(key, one["Size"], Micros(int(one["LastModified"].timestamp() * 1_000_000)))
            for one in found
            if (key := without_root(root, one["Key"])) is not None
        )
        # The next page begins after the last name, also when that is no key.
        more = answer["IsTruncated"] and found
        return Page(objects, Key(found[-1]["Key"].removeprefix(root)) if more else None)

    def close(self) -> None:
        self._client.close()

    def refuses_damaged_upload(self, key: Key, write_id: WriteId) -> bool:
        """Whether the store notices bytes that are not those of the checksum: asked by the probe, with a wrong one."""
        try:
            with self._failures("put", key):
                self._client.put_object(
                    Bucket=self._address.bucket,
                    Key=with_root(self._address.root, key),
                    Body=b"other bytes",
                    ChecksumSHA256=_base64(payload.checksum_of(b"the bytes that were meant")),
                    Metadata={_WRITE_ID: write_id},
                    IfNoneMatch="*",
                    **self._encryption,
                )
        except (StoreCorrupt, StoreRefused):
            return True
        return False

    # --- steps ---

    def _ends(self, size: int) -> float:
        return time.monotonic() + self._attempt_s + size / _SLOWEST_BYTES_PER_S

    def _whole_size(self, key: Key, content_range: str | None) -> int:
        total = (content_range or "").rpartition("/")[2]
        if not total.isdigit():
            raise StoreUnsuitable(f"{self.place}: a part of `{key}` was asked for, and the store does not serve parts")
        return int(total)

    def _stored(self, etag: str | None, size: int, metadata: Mapping[str, str]) -> Stored:
        checksum, write_id = metadata.get(_CHECKSUM), metadata.get(_WRITE_ID)
        return Stored(
            self._etag(etag), size, Checksum(checksum) if checksum else None, WriteId(write_id) if write_id else None
        )

    def _etag(self, etag: str | None) -> ETag:
        if not etag:
            raise StoreUnsuitable(f"{self.place}: the store names no ETag, so nothing can be replaced safely")
        return ETag(etag)

    @contextlib.contextmanager
    def _failures(self, op: str, what: str) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError, HTTPError, ResponseParserError, _BrokenOff) as problem:
            raise translated(problem, Request(op, what, self.place)) from problem


class _BrokenOff(Exception):
    """A transfer that ended in the middle, by us or by the other side, or that was none."""


class _Body(io.RawIOBase):
    """Bytes to send, which end in an error when their time is over, so that the store never has them all."""

    def __init__(self, data: Data, ends: float) -> None:
        self._file = data.open("rb") if isinstance(data, Path) else io.BytesIO(data)
        self._ends = ends

    @override
    def readinto(self, buffer: Buffer) -> int:
        if time.monotonic() > self._ends:
            raise _BrokenOff("the upload is too slow")
        return self._file.readinto(buffer)

    @override
    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    @override
    def tell(self) -> int:
        return self._file.tell()

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def close(self) -> None:
        self._file.close()
        super().close()


def _received(body: StreamingBody, size: int, ends: float) -> bytes:
    """The whole body. Whatever comes is taken at once, as waiting for a full chunk could outlast any limit."""
    parts = []
    with cast("AbstractContextManager[HTTPResponse]", body) as raw:
        while part := raw.read1(_CHUNK_BYTES):
            parts.append(part)
            if time.monotonic() > ends:
                raise _BrokenOff("the download is too slow")
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(data) != size:
        raise _BrokenOff(f"the answer ended after {len(data)} of {size} bytes")
    return data


def _client(address: S3Address, keys: S3Keys | None, attempt_s: float) -> "S3Client":
    names = {f"aws_{name}": value for name, value in (keys._asdict() if keys else {}).items()}
    session = boto3.session.Session(**names)
    config = Config(
        connect_timeout=min(attempt_s, _CONNECT_S_MAX),
        read_timeout=attempt_s,
        max_pool_connections=_CONNECTIONS_MAX,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": "path" if address.path_style else "auto"},
        # Our own checksum is the one that is checked; stores differ in what they make of the SDK's.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        user_agent_extra=f"streams-node/{__version__}",
    )
    region = address.region or session.region_name or _REGION
    return session.client("s3", endpoint_url=address.endpoint, region_name=region, config=config)


def _encryption(address: S3Address) -> dict[str, Any]:
    asked = {"ServerSideEncryption": address.encryption, "SSEKMSKeyId": address.kms_key}
    return {name: value for name, value in asked.items() if value}


def _base64(checksum: Checksum) -> str:
    return base64.b64encode(bytes.fromhex(checksum)).decode()
