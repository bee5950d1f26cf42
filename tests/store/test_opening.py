"""From settings to a store: what cannot be trusted is refused at once, and `store check` says why."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from typing_extensions import override

from streams_node.cli import main
from streams_node.config import Settings
from streams_node.errors import PreconditionFailed, StoreRefused, StoreUnavailable, StoreUnsuitable
from streams_node.objects import (
    FolderStore,
    MemoryStore,
    ObjectStore,
    RequestCounts,
    RetryingStore,
    Stored,
    WriteId,
    findings,
    open_store,
    require_conditions,
)
from streams_node.objects.faults import Fault, FaultPlan, FaultyStore
from streams_node.objects.keys import EVERYTHING, PROBES, Key, ObjectId, probe_key
from streams_node.objects.protocol import Data, ETag
from streams_node.objects.s3 import S3Address
from tests.store import servers
from tests.store.conftest import QUICK, new_key, new_write

RUN = ObjectId("ab" * 16)
CHECKS = [
    "reach", "put", "get", "range", "head", "if_absent", "if_match", "race", "list", "list_at_once", "upload_checksum",
    "delete",
]  # fmt: skip


def s3_settings(address: S3Address, **more: object) -> dict[str, object]:
    return {
        "object_store": "s3",
        "s3_bucket": address.bucket,
        "s3_prefix": address.root,
        "s3_endpoint": address.endpoint,
        "s3_path_style": True,
        "s3_access_key_id": servers.KEYS.access_key_id,
        "s3_secret_access_key": servers.KEYS.secret_access_key,
        **more,
    }


def settings_of(tmp_path: Path, **more: object) -> Settings:
    return Settings.model_validate({"data": tmp_path / "data", "no_auth": True, **more})


# --- the probe ------------------------------------------------------------------------------------------------------


def test_every_store_that_keeps_the_contract_passes_the_probe_and_is_left_clean(bare: ObjectStore) -> None:
    store = RetryingStore(bare, RequestCounts(), QUICK)
    found = {finding.check: finding.answer for finding in findings(store, bare, RUN)}
    assert list(found) == CHECKS
    assert {check for check, answer in found.items() if answer != "yes"} <= {"upload_checksum"}
    assert store.list(EVERYTHING).objects == ()
    require_conditions(store, RUN)
    assert store.list(EVERYTHING).objects == ()


class Careless(MemoryStore):
    """Ignores some of the conditions."""

    def __init__(self, *, ignores_absent: bool, ignores_match: bool) -> None:
        super().__init__()
        self.ignores_absent = ignores_absent
        self.ignores_match = ignores_match

    @override
    def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
        there = self.head(key)
        if self.ignores_absent if if_match is None else self.ignores_match:
            if_match = there.etag if there else None
        return super().put(key, data, write_id=write_id, if_match=if_match)


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (Careless(ignores_absent=True, ignores_match=False), "If-None-Match"),
        (Careless(ignores_absent=False, ignores_match=True), "If-Match"),
    ],
)
def test_a_store_that_ignores_a_condition_is_refused_by_its_name(store: ObjectStore, problem: str) -> None:
    with pytest.raises(StoreUnsuitable, match=f"it ignores {problem}"):
        require_conditions(RetryingStore(store, RequestCounts(), QUICK), RUN)
    answers = {one.check: one for one in findings(RetryingStore(store, RequestCounts(), QUICK), store, RUN)}
    check = "if_absent" if problem == "If-None-Match" else "if_match"
    assert answers[check].answer == "no"
    assert problem in answers[check].detail


def test_a_store_whose_answers_stay_damaged_is_away_by_its_name() -> None:
    """A node that has been in use serves on, and asks again."""
    store = FaultyStore(MemoryStore(), FaultPlan(1, {Fault.TRUNCATED: 1.0}))
    with pytest.raises(StoreUnavailable, match=r"^memory does not send back what was written: "):
        require_conditions(RetryingStore(store, RequestCounts(), QUICK), RUN)


def test_a_check_that_nothing_can_follow_ends_the_asking() -> None:
    class ReadOnly(MemoryStore):
        @override
        def put(self, key: Key, data: Data, *, write_id: WriteId, if_match: ETag | None = None) -> Stored:
            raise StoreRefused("the credentials lack s3:PutObject")

    store = ReadOnly()
    found = list(findings(RetryingStore(store, RequestCounts(), QUICK), store, RUN))
    assert [one.answer for one in found] == ["yes", "no"] + ["not asked"] * (len(CHECKS) - 2)
    assert "s3:PutObject" in found[1].detail


def test_what_a_killed_probe_left_is_removed_when_it_is_old_and_nothing_else() -> None:
    now = time.time()
    store = MemoryStore(now=lambda: now)
    old, young, others, data = (
        probe_key(ObjectId("0" * 32), "object"),
        probe_key(RUN, "x"),
        Key("probe/notes"),
        new_key(),
    )
    for key in (old, others, data):
        store.put(key, b"", write_id=new_write())
    now += 3500
    young = probe_key(ObjectId("1" * 32), "object")
    store.put(young, b"", write_id=new_write())
    now += 200
    require_conditions(RetryingStore(store, RequestCounts(), QUICK), RUN)
    assert {one.key for one in store.list(EVERYTHING).objects} == {young, others, data}
    assert {one.key for one in store.list(PROBES).objects} == {young, others}


def test_a_store_that_may_not_delete_is_told_so() -> None:
    class Keeping(MemoryStore):
        @override
        def delete(self, key: Key) -> None:
            raise StoreRefused("the credentials lack s3:DeleteObject")

    store = Keeping()
    found = {one.check: one for one in findings(RetryingStore(store, RequestCounts(), QUICK), store, RUN)}
    assert [check for check, one in found.items() if one.answer == "no"] == ["delete"]


# --- opening --------------------------------------------------------------------------------------------------------


def test_the_default_store_is_a_folder_in_the_data_folder(tmp_path: Path) -> None:
    store = open_store(settings_of(tmp_path))
    key = new_key()
    store.put(key, b"data", write_id=new_write())
    assert (tmp_path / "data" / "objects" / key).read_bytes() == b"data"
    assert str(tmp_path / "data" / "objects") in store.place


def test_a_real_server_is_opened_by_its_settings(tmp_path: Path, seaweedfs: S3Address) -> None:
    store = open_store(settings_of(tmp_path, **s3_settings(seaweedfs, s3_prefix="opened/by/settings")))
    store.put(new_key(), b"data", write_id=new_write())
    assert store.place == f"s3://streams/opened/by/settings/ at {seaweedfs.endpoint}"
    store.close()


def test_a_server_that_overwrites_is_refused_when_it_is_opened(tmp_path: Path, rclone: S3Address) -> None:
    with pytest.raises(StoreUnsuitable) as caught:
        open_store(settings_of(tmp_path, **s3_settings(rclone)))
    for part in ("it ignores If-None-Match", "overwrote an object that was there", "another store with conditional"):
        assert part in caught.value.message


def test_all_problems_of_s3_settings_are_told_at_once(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, object_store="s3", s3_access_key_id="a", s3_session_token="t", s3_kms_key="k", s3_encryption="AES256"
    )
    with pytest.raises(StoreRefused) as caught:
        open_store(settings)
    for name in ("s3_bucket", "s3_secret_access_key", "s3_kms_key"):
        assert name in caught.value.message


def test_a_store_that_is_away_is_unavailable_and_not_unsuitable(tmp_path: Path) -> None:
    (port,) = servers.free_ports(1)
    address = S3Address("bucket", endpoint=f"http://127.0.0.1:{port}")
    with pytest.raises(StoreUnavailable):
        open_store(settings_of(tmp_path, **s3_settings(address, object_store_attempts_max=2)))


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STREAMS_CONFIG", "STREAMS_API_KEY", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def flags(settings: Mapping[str, object]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if value is not True] + [
        f"--{name.replace('_', '-')}" for name, value in settings.items() if value is True
    ]


def test_the_check_prints_a_table_and_asks_for_no_key_of_the_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "check", "--data", str(tmp_path / "data")]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["CHECK", *CHECKS]
    assert "has everything that a node needs" in shown.err


def test_the_check_prints_one_object_a_line_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seaweedfs: S3Address
) -> None:
    command = ["store", "check", "--json", "--data", str(tmp_path), *flags(s3_settings(seaweedfs))]
    assert main(command) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["check"] for line in lines] == CHECKS
    assert {line["answer"] for line in lines} == {"yes"}
    assert set(lines[0]) == {"check", "promise", "needed", "answer", "detail", "seconds"}


def test_the_check_says_what_an_unsuitable_store_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rclone: S3Address
) -> None:
    assert main(["store", "check", "--data", str(tmp_path), *flags(s3_settings(rclone))]) == 1
    shown = capsys.readouterr()
    assert "it ignores If-None-Match: it overwrote an object that was there" in shown.out
    assert "is not suitable: it fails" in shown.err
    assert main(["store", "check", "--json", "--data", str(tmp_path), *flags(s3_settings(rclone))]) == 1
    error = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert error["code"] == "object_store_unsuitable"
    assert {"if_absent", "if_match", "race"} <= set(error["lacking"])


def test_the_check_tells_refused_from_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "check", "--data", str(tmp_path), "--object-store", "s3"]) == 1
    assert "s3_bucket: missing" in capsys.readouterr().err
    (port,) = servers.free_ports(1)
    address = S3Address("bucket", endpoint=f"http://127.0.0.1:{port}")
    away = flags(s3_settings(address, object_store_attempts_max=1))
    assert main(["store", "check", "--data", str(tmp_path), *away]) == 3
    assert "object_store_unavailable" in capsys.readouterr().err
    assert main(["store", "check", "--object-store", "tape"]) == 2


def test_the_check_never_prints_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seaweedfs: S3Address
) -> None:
    secrets = {"s3_secret_access_key": "not-the-right-secret", "s3_session_token": "some-session-token"}
    assert main(["store", "check", "--data", str(tmp_path), *flags(s3_settings(seaweedfs, **secrets))]) == 1
    shown = "".join(capsys.readouterr())
    assert not any(secret in shown for secret in secrets.values())


def test_a_store_that_passed_refuses_what_it_has_to(tmp_path: Path) -> None:
    store = open_store(settings_of(tmp_path))
    key = new_key()
    store.put(key, b"first", write_id=new_write())
    with pytest.raises(PreconditionFailed):
        store.put(key, b"second", write_id=new_write())
    assert FolderStore.open(tmp_path / "data" / "objects").get(key).data == b"first"
