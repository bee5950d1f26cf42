"""The S3 store against a peer that misbehaves on cue, and against real servers that refuse."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3.session
import pytest

from streams_node.errors import (
    ObjectMissing,
    PreconditionFailed,
    StoreCorrupt,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    StoreUnsuitable,
)
from streams_node.objects import Key, ObjectStore, checksum_of, s3
from streams_node.objects.keys import EVERYTHING, OWNER, root_prefix
from streams_node.objects.s3 import S3Address, S3Keys, S3Store
from tests.store import servers
from tests.store.conftest import new_key, new_write, s3_store
from tests.store.peer import Peer, answer, dripping, hang_up, refusal, running_peer, silence

SECRETS = S3Keys("peer-access-key", "peer-secret-key", "peer-session-token")
HASTY_S = 0.4  # an attempt, where the test is about time; elsewhere a busy machine must not make it fail
PATIENT_S = 20.0
PATIENCE_S = 5.0  # of a test for what must end in HASTY_S


@pytest.fixture
def peer() -> Iterator[Peer]:
    with running_peer() as peer:
        yield peer


@pytest.fixture
def store(peer: Peer) -> Iterator[S3Store]:
    store = store_at(address_of(peer.endpoint))
    yield store
    store.close()


@pytest.fixture
def hasty(peer: Peer) -> Iterator[S3Store]:
    store = store_at(address_of(peer.endpoint), attempt_s=HASTY_S)
    yield store
    store.close()


def address_of(endpoint: str) -> S3Address:
    return S3Address("bucket", root_prefix("a/prefix"), endpoint, path_style=True)


def store_at(address: S3Address, attempt_s: float = PATIENT_S) -> S3Store:
    return S3Store(address, SECRETS, attempt_s=attempt_s)


def put(store: ObjectStore, key: Key = OWNER, data: bytes = b"data") -> None:
    store.put(key, data, write_id=new_write())


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_a_put_carries_condition_checksum_write_id_and_credentials_of_a_session(peer: Peer, store: S3Store) -> None:
    peer.will(answer(200, ETag='"1"'))
    stored = store.put(OWNER, b"data", write_id=new_write())
    (heard,) = peer.heard
    assert (heard.method, heard.path, heard.received) == ("PUT", "/bucket/a/prefix/owner", 4)
    assert heard.headers["if-none-match"] == "*"
    assert heard.headers["x-amz-meta-write-id"] == stored.write_id
    assert heard.headers["x-amz-meta-sha256"] == checksum_of(b"data")
    assert heard.headers["x-amz-checksum-sha256"] == "Om6weQ85rIfJTzhWst0sXREOaBFgImGpqSPTuyOtyLc="
    assert heard.headers["x-amz-security-token"] == SECRETS.session_token
    assert not {"x-amz-server-side-encryption", "if-match"} & heard.headers.keys()


def test_a_replacement_names_the_state_that_it_replaces(peer: Peer, store: S3Store) -> None:
    peer.will(answer(200, ETag='"1"'), answer(200, ETag='"2"'))
    etag = store.put(OWNER, b"data", write_id=new_write()).etag
    store.put(OWNER, b"more", write_id=new_write(), if_match=etag)
    assert peer.heard[1].headers["if-match"] == '"1"'
    assert "if-none-match" not in peer.heard[1].headers


def test_encryption_is_asked_for_with_each_object(peer: Peer) -> None:
    peer.will(answer(200, ETag='"1"'))
    store = store_at(address_of(peer.endpoint)._replace(encryption="aws:kms", kms_key="alias/streams"))
    put(store)
    headers = peer.heard[0].headers
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/streams"


# --- one call, one request ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [refusal(503, "SlowDown"), refusal(500, "InternalError"), hang_up, silence])
def test_the_sdk_sends_nothing_twice(peer: Peer, store: S3Store, hasty: S3Store, reply: Callable[..., None]) -> None:
    peer.will(reply)
    asked = hasty if reply is silence else store
    for ask in (lambda: put(asked), lambda: asked.get(OWNER), lambda: asked.list(EVERYTHING)):
        peer.heard.clear()
        with pytest.raises(StoreUnavailable):
            ask()
        assert len(peer.heard) == 1


def test_a_wait_that_the_store_asks_for_is_handed_on(peer: Peer, store: S3Store) -> None:
    peer.will(refusal(503, "SlowDown", retry_after="7"))
    with pytest.raises(StoreUnavailable) as caught:
        put(store)
    assert (caught.value.retry_after_ms, caught.value.outcome_unknown) == (7000, True)


@pytest.mark.parametrize(
    ("status", "code", "kind", "hint"),
    [
        (412, "PreconditionFailed", PreconditionFailed, "somebody else's"),
        (404, "NoSuchKey", PreconditionFailed, "somebody else's"),
        (409, "ConditionalRequestConflict", StoreUnavailable, "another write"),
        (429, "TooManyRequests", StoreUnavailable, "429"),
        (400, "RequestTimeout", StoreUnavailable, "RequestTimeout"),
        (400, "BadDigest", StoreCorrupt, "BadDigest"),
        (403, "AccessDenied", StoreRefused, "s3:PutObject"),
        (403, "InvalidAccessKeyId", StoreRefused, "s3_access_key_id"),
        (403, "SignatureDoesNotMatch", StoreRefused, "s3_secret_access_key"),
        (403, "RequestTimeTooSkewed", StoreRefused, "clock"),
        (400, "ExpiredToken", StoreRefused, "session token"),
        (404, "NoSuchBucket", StoreRefused, "s3_bucket"),
        (400, "SomethingNew", StoreRefused, "SomethingNew"),
        (501, "NotImplemented", StoreUnsuitable, "does not implement"),
    ],
)
def test_each_refusal_of_a_put_is_told_with_its_way_out(
    peer: Peer, store: S3Store, status: int, code: str, kind: type[StoreError], hint: str
) -> None:
    peer.will(refusal(status, code))
    with pytest.raises(kind, match=hint) as caught:
        put(store)
    assert type(caught.value) is kind
    assert not any(secret in str(caught.value) for secret in SECRETS if secret)


def test_credentials_are_not_shown_by_accident() -> None:
    assert "secret" not in repr(SECRETS)
    assert "key" not in f"{SECRETS}"


def test_what_the_sdk_cannot_work_with_is_refused_and_not_tried(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreRefused, match="bucket name"):
        put(store_at(address_of(peer.endpoint)._replace(bucket="no bucket/")))
    with pytest.raises(StoreRefused, match="Invalid endpoint"):
        store_at(address_of("http:// nowhere"))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(StoreRefused, match="no-such-profile"):
        store_at(address_of(peer.endpoint))
    assert peer.heard == []


# --- answers that cannot be believed --------------------------------------------------------------------------------


def test_a_body_that_ends_too_early_is_no_object(peer: Peer, store: S3Store) -> None:
    peer.will(answer(200, b"half", size=8, ETag='"1"'))
    with pytest.raises(StoreUnavailable):
        store.get(OWNER)


def test_a_part_from_a_store_that_sends_the_whole_is_refused(peer: Peer, store: S3Store) -> None:
    peer.will(answer(200, b"whole", ETag='"1"'))
    with pytest.raises(StoreUnsuitable, match="does not serve parts"):
        store.get(OWNER, 1, 3)


def test_a_store_without_etags_is_refused(peer: Peer, store: S3Store) -> None:
    peer.will(answer(200))
    with pytest.raises(StoreUnsuitable, match="no ETag"):
        put(store)


@pytest.mark.parametrize("status", [200, 502])
@pytest.mark.parametrize("page", [b"<html>please log in<br></html>", b"<html><body>welcome</body></html>", b"", b"ok"])
def test_a_page_of_a_proxy_is_not_taken_for_an_answer(peer: Peer, store: S3Store, status: int, page: bytes) -> None:
    peer.will(answer(status, page, Content_Type="text/html"))
    with pytest.raises(StoreUnavailable):
        store.list(EVERYTHING)
    for ask in (lambda: put(store), lambda: store.get(OWNER), lambda: store.head(OWNER)):
        with pytest.raises((StoreUnavailable, StoreUnsuitable)):
            ask()


def test_metadata_of_others_is_not_needed(peer: Peer, store: S3Store) -> None:
    peer.will(answer(200, b"theirs", ETag='"1"'))
    data, stored = store.get(OWNER)
    assert (data, stored.size, stored.checksum, stored.write_id) == (b"theirs", 6, None, None)


# --- time -----------------------------------------------------------------------------------------------------------


def test_a_store_that_does_not_answer_is_given_up_in_time(peer: Peer, hasty: S3Store) -> None:
    peer.will(silence)
    for ask in (lambda: put(hasty), lambda: hasty.get(OWNER), lambda: hasty.head(OWNER), lambda: hasty.delete(OWNER)):
        with in_time(), pytest.raises(StoreUnavailable):
            ask()


def test_a_body_that_drips_is_given_up_in_time(peer: Peer, hasty: S3Store) -> None:
    peer.will(dripping(100_000, pause_s=0.01))
    with in_time(), pytest.raises(StoreUnavailable):
        hasty.get(OWNER)


@pytest.mark.parametrize("as_file", [False, True])
def test_an_upload_that_is_too_late_is_cancelled_and_never_arrives(
    peer: Peer, hasty: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, as_file: bool
) -> None:
    monkeypatch.setattr(s3, "_SLOWEST_BYTES_PER_S", 1 << 40)
    peer.read_pause_s = 0.02
    data = bytes(16 * 1024 * 1024)
    (tmp_path / "file").write_bytes(data)
    with in_time(), pytest.raises(StoreUnavailable) as caught:
        hasty.put(OWNER, tmp_path / "file" if as_file else data, write_id=new_write())
    assert caught.value.outcome_unknown
    (heard,) = peer.heard
    assert not heard.complete
    sent = heard.received
    time.sleep(0.2)
    assert heard.received - sent < 8 * 1024 * 1024, "only what was under way already"


def test_a_store_that_is_not_there_is_unavailable() -> None:
    (port,) = servers.free_ports(1)
    with in_time(), pytest.raises(StoreUnavailable):
        put(store_at(address_of(f"http://127.0.0.1:{port}"), attempt_s=HASTY_S))


class in_time:  # noqa: N801 - reads as a sentence
    def __enter__(self) -> None:
        self.ends = time.monotonic() + PATIENCE_S

    def __exit__(self, *_: object) -> None:
        assert time.monotonic() < self.ends


# --- real servers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        (servers.KEYS._replace(secret_access_key="wrong"), "s3_secret_access_key"),
        (servers.KEYS._replace(access_key_id="nobody"), "s3_access_key_id"),
        (servers.READER, "s3:PutObject"),
    ],
)
def test_a_real_server_that_refuses_is_told_with_the_way_out(seaweedfs: S3Address, keys: S3Keys, hint: str) -> None:
    with pytest.raises(StoreRefused, match=hint):
        put(S3Store(seaweedfs, keys), new_key())


def test_a_bucket_that_is_not_there_is_told(moto: S3Address) -> None:
    store = S3Store(moto._replace(bucket="no-such-bucket"), servers.KEYS)
    for ask in (lambda: put(store), lambda: store.get(OWNER), lambda: store.list(EVERYTHING)):
        with pytest.raises(StoreRefused, match="s3_bucket"):
            ask()


def test_a_real_server_refuses_bytes_that_changed_on_the_way(seaweedfs: S3Address) -> None:
    store = s3_store(seaweedfs)
    assert store.refuses_damaged_upload(OWNER, new_write())
    assert store.head(OWNER) is None


def test_prefixes_share_a_bucket_and_do_not_see_each_other(moto: S3Address) -> None:
    one, other = s3_store(moto), s3_store(moto)
    put(one, OWNER, b"one")
    put(other, OWNER, b"other")
    assert one.get(OWNER).data == b"one"
    assert [each.key for each in one.list(EVERYTHING).objects] == [OWNER]
    other.delete(OWNER)
    with pytest.raises(ObjectMissing):
        other.get(OWNER)
    assert one.get(OWNER).data == b"one"


def test_names_of_others_in_the_prefix_are_left_out_and_end_no_listing(moto: S3Address) -> None:
    root = root_prefix("with/others")
    client = boto3.session.Session(*servers.KEYS[:2]).client("s3", endpoint_url=moto.endpoint, region_name=moto.region)
    key = new_key()
    names = ["a b", "README.md", "packs/.x", "packs/UPPER", "zzz!"]
    for name in names:
        client.put_object(Bucket=moto.bucket, Key=root + name, Body=b"")
    store = S3Store(moto._replace(root=root), servers.KEYS)
    put(store, key)
    seen, after = [], None
    for _ in range(len(names) + 2):
        page = store.list(EVERYTHING, after, limit=1)
        seen += [one.key for one in page.objects]
        after = page.next_after
        if after is None:
            break
    assert (seen, after) == ([key], None)


def test_encrypted_objects_are_read_like_others(moto: S3Address) -> None:
    store = S3Store(moto._replace(root=root_prefix("encrypted"), encryption="AES256"), servers.KEYS)
    key = new_key()
    put(store, key)
    assert store.get(key).data == b"data"
    client = boto3.session.Session(*servers.KEYS[:2]).client("s3", endpoint_url=moto.endpoint, region_name=moto.region)
    assert client.head_object(Bucket=moto.bucket, Key=f"encrypted/{key}")["ServerSideEncryption"] == "AES256"


def test_many_threads_share_a_store(moto: S3Address) -> None:
    store = s3_store(moto)
    keys = [new_key() for _ in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: put(store, key, key.encode()), keys))
        assert list(pool.map(lambda key: store.get(key).data, keys)) == [key.encode() for key in keys]
