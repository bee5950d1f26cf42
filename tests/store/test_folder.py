"""The folder store: plain files, durable before they are answered for, whole after any death, safe from strangers."""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from streams_node.errors import PreconditionFailed, StoreCorrupt, StoreRefused, StoreUnavailable, StoreUnsuitable
from streams_node.objects import FolderStore, Key, RequestCounts, RetryingStore, WriteId, checksum_of
from streams_node.objects.folder import disk
from streams_node.objects.folder import store as store_module
from streams_node.objects.keys import EVERYTHING, OWNER
from tests.store.conftest import QUICK, new_key, new_write
from tests.store.journal import Journal
from tests.store.writer import content_of
from tests.tidy.conftest import ROOT

DATA = b"PAR1 and so on"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def store(root: Path) -> FolderStore:
    return FolderStore.open(root)


def note_of(root: Path, key: Key) -> Path:
    return root / ".store" / "notes" / f"{key}.json"


def incoming(root: Path) -> list[Path]:
    return list((root / ".store" / "incoming").iterdir())


# --- plain files ----------------------------------------------------------------------------------------------------


def test_an_object_is_a_plain_file_under_its_key_and_nothing_else_is_left(store: FolderStore, root: Path) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    assert (root / key).read_bytes() == DATA
    assert list(root.rglob("*.parquet")) == [root / key]
    assert incoming(root) == []


def test_deleting_the_last_object_of_a_folder_removes_the_folder(store: FolderStore, root: Path) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    store.delete(key)
    assert [path.name for path in root.iterdir()] == [".store"]
    assert list((root / ".store" / "notes").iterdir()) == []


def test_a_copy_without_times_is_the_same_store(store: FolderStore, root: Path, tmp_path: Path) -> None:
    key = new_key()
    stored = store.put(key, DATA, write_id=new_write())
    shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copyfile)
    copy = FolderStore.open(tmp_path / "copy")
    assert copy.head(key) == stored
    with pytest.raises(PreconditionFailed):
        copy.put(key, b"other", write_id=new_write())


def test_files_that_other_tools_put_there_are_objects_without_a_write_id(root: Path) -> None:
    key = new_key()
    (root / key).parent.mkdir(parents=True)
    (root / key).write_bytes(DATA)
    store = FolderStore.open(root)
    data, stored = store.get(key)
    assert (data, stored.size, stored.write_id, stored.checksum) == (DATA, len(DATA), None, None)
    with pytest.raises(PreconditionFailed):
        store.put(key, b"other", write_id=new_write())
    store.put(key, b"other", write_id=new_write(), if_match=stored.etag)
    assert (root / key).read_bytes() == b"other"


def test_names_that_are_no_keys_and_links_are_left_alone(store: FolderStore, root: Path, tmp_path: Path) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    for name in ("README.md", ".hidden", "packs/Upper", "näher"):
        (root / name).write_bytes(b"")
    (root / "elsewhere").symlink_to(tmp_path)
    (root / "packs" / "link").symlink_to(root / key)
    assert [one.key for one in store.list(EVERYTHING).objects] == [key]


# --- damage and strangers -------------------------------------------------------------------------------------------


def test_a_file_that_somebody_changed_is_named_with_the_way_out(store: FolderStore, root: Path) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    (root / key).write_bytes(b"changed")
    for ask in (store.head, store.get):
        with pytest.raises(StoreCorrupt, match=r"restore it, or remove `.*\.json`"):
            ask(key)
    note_of(root, key).unlink()
    assert store.get(key).data == b"changed"


def test_a_flipped_bit_is_found_when_the_object_is_read(store: FolderStore, root: Path) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    path = root / key
    times = path.stat()
    path.write_bytes(b"Q" + DATA[1:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(StoreCorrupt, match="SHA-256"):
        RetryingStore(store, RequestCounts(), QUICK).get(key)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 9, "writes": []}'])
def test_a_note_that_cannot_be_read_is_named_and_stops_only_its_object(
    store: FolderStore, root: Path, text: bytes
) -> None:
    key, other = new_key(), new_key()
    for each in (key, other):
        store.put(each, DATA, write_id=new_write())
    note_of(root, key).write_bytes(text)
    with pytest.raises(StoreCorrupt, match="note"):
        store.get(key)
    assert store.get(other).data == DATA
    assert len(store.list(EVERYTHING).objects) == 2


def test_a_strangers_file_is_not_overwritten_even_in_the_last_moment(
    store: FolderStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    create = disk.create

    def create_after_a_stranger(coming: Path, path: Path) -> None:
        if path == root / key:
            path.write_bytes(b"a stranger's")
        create(coming, path)

    monkeypatch.setattr(disk, "create", create_after_a_stranger)
    with pytest.raises(PreconditionFailed):
        store.put(key, DATA, write_id=new_write())
    assert (root / key).read_bytes() == b"a stranger's"


def test_a_newer_layout_is_refused_and_left_alone(root: Path) -> None:
    FolderStore.open(root)
    (root / ".store" / "format").write_bytes(b"2\n")
    with pytest.raises(StoreUnsuitable, match="layout `2`"):
        FolderStore.open(root)
    assert (root / ".store" / "format").read_bytes() == b"2\n"


@pytest.mark.parametrize("key", ["../escape", "/etc/passwd", "a/../b", ".store/format", "a//b", "A", "a/", ""])
def test_nothing_outside_the_folder_is_a_key(store: FolderStore, key: str) -> None:
    with pytest.raises(Exception, match="only a key becomes a file"):
        store.put(Key(key), DATA, write_id=new_write())
    with pytest.raises(Exception, match="only a key becomes a file"):
        store.get(Key(key))


# --- the disk -------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_gone_is_told_and_not_made_again(store: FolderStore, root: Path, tmp_path: Path) -> None:
    key = new_key()
    store.put(key, DATA, write_id=new_write())
    root.rename(tmp_path / "unmounted")
    root.mkdir()  # what is left of a disk that is not mounted
    for ask in (
        lambda: store.put(new_key(), DATA, write_id=new_write()),
        lambda: store.get(key),
        lambda: store.head(key),
        lambda: store.delete(key),
        lambda: store.list(EVERYTHING),
    ):
        with pytest.raises(StoreUnavailable, match="is gone, or its disk is not mounted"):
            ask()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StoreUnavailable),
        (errno.EDQUOT, StoreUnavailable),
        (errno.EIO, StoreUnavailable),
        (errno.EROFS, StoreRefused),
        (errno.EACCES, StoreRefused),
    ],
)
def test_a_disk_that_fails_is_named_and_leaves_nothing_half_done(
    store: FolderStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    for step in ("write_all", "sync", "create"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, step, fail)
            with pytest.raises(kind, match=os.strerror(number)):
                store.put(new_key(), DATA, write_id=new_write())
    assert store.list(EVERYTHING).objects == ()
    assert incoming(root) == []


def test_a_file_system_without_hard_links_is_refused(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreUnsuitable, match="no hard links"):
        store.put(new_key(), DATA, write_id=new_write())


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreRefused):
        FolderStore.open(tmp_path / "file")
    with pytest.raises(StoreRefused):
        FolderStore.open(tmp_path / "file" / "below")


# --- power loss -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaces", [False, True])
def test_an_answered_put_is_on_disk_and_its_note_was_there_before_it_was_seen(
    store: FolderStore, root: Path, monkeypatch: pytest.MonkeyPatch, *, replaces: bool
) -> None:
    etag = store.put(OWNER, b"before", write_id=new_write()).etag if replaces else None
    key = OWNER if replaces else new_key()
    journal = Journal(monkeypatch)
    store.put(key, DATA, write_id=new_write(), if_match=etag)
    (shown,) = [number for number, step in enumerate(journal.steps) if step.kind == "name" and step.path == root / key]
    at_risk = journal.at_risk(shown)
    assert {path for path in at_risk if path.is_file()} == set()
    assert note_of(root, key).parent not in at_risk
    assert journal.at_risk(len(journal.steps)) == set()


def test_an_answered_delete_is_on_disk(store: FolderStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [new_key(), new_key()]
    for key in keys:
        store.put(key, DATA, write_id=new_write())
    journal = Journal(monkeypatch)
    store.delete(keys[0])
    assert (root / keys[0]).parent not in journal.at_risk(len(journal.steps))


# --- kill -9 --------------------------------------------------------------------------------------------------------

PUT_POINTS = ("folder.written", "folder.noted", "folder.visible")


DELETE_POINTS = ("folder.deleted",)


def test_every_moment_that_the_code_names_is_one_at_which_a_test_kills() -> None:
    room = Path(store_module.__file__).parent
    named = {
        name for path in room.rglob("*.py") for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text("utf-8"))
    }
    assert named == {*PUT_POINTS, *DELETE_POINTS}


def run_writer(root: Path, *arguments: str, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.store.writer", str(root), *arguments]
    environ = os.environ | {"STREAMS_CRASH_AT": crash_at}
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("point", PUT_POINTS)
def test_a_put_that_dies_leaves_all_or_nothing_and_can_be_repeated(root: Path, point: str, at: int) -> None:
    run = run_writer(root, "create", "3", crash_at=f"{point}:{at}")
    assert run.returncode == -signal.SIGKILL, run.stderr
    told = acknowledged(run.stdout)
    assert len(told) == at - 1
    store = FolderStore.open(root)
    assert incoming(root) == []
    check(store, told)
    again = run_writer(root, "create", "3")
    assert again.returncode == 0, again.stderr
    check(store, acknowledged(again.stdout))
    assert len(store.list(EVERYTHING).objects) == 3


@pytest.mark.parametrize("point", PUT_POINTS)
def test_a_replacement_that_dies_leaves_the_old_or_the_new_and_says_which(root: Path, point: str) -> None:
    run = run_writer(root, "replace", "5", crash_at=f"{point}:4")
    assert run.returncode == -signal.SIGKILL, run.stderr
    data, stored = FolderStore.open(root).get(OWNER)
    assert int(data) in {2, 3}, "three were answered, the fourth may be there"
    assert stored.checksum == checksum_of(data)
    assert stored.write_id == f"replace-{int(data)}"
    again = run_writer(root, "replace", "5")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("point", DELETE_POINTS)
def test_a_delete_that_dies_can_be_repeated(root: Path, point: str) -> None:
    run = run_writer(root, "delete", "2", crash_at=f"{point}:2")
    assert run.returncode == -signal.SIGKILL, run.stderr
    store = FolderStore.open(root)
    assert store.list(EVERYTHING).objects == ()
    assert run_writer(root, "delete", "2").returncode == 0


def test_a_writer_that_is_killed_anywhere_leaves_whole_objects_only(root: Path) -> None:
    store = FolderStore.open(root)
    for wait_s in (0.0, 0.011, 0.023, 0.037):
        command = [sys.executable, "-m", "tests.store.writer", str(root), "create", "100000", f"{wait_s}"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(5)]
            time.sleep(wait_s)  # a different moment each time
            process.kill()
            told += process.stdout.readlines()
        FolderStore.open(root)
        assert incoming(root) == []
        check(store, acknowledged("".join(told)))


def acknowledged(output: str) -> Mapping[Key, WriteId]:
    lines = [line.split() for line in output.splitlines() if line.endswith(" done")]
    return {Key(key): WriteId(write_id) for key, write_id, _ in lines}


def check(store: FolderStore, told: Mapping[Key, WriteId]) -> None:
    """Whatever is listed is whole, and what was answered for is listed."""
    reader = RetryingStore(store, RequestCounts(), QUICK)
    after, there = None, {}
    while True:
        page = reader.list(EVERYTHING, after)
        for one in page.objects:
            data, stored = reader.get(one.key)
            assert data == content_of(one.key)
            there[one.key] = stored.write_id
        after = page.next_after
        if after is None:
            break
    assert {key: there.get(key) for key in told} == told


# --- sharing --------------------------------------------------------------------------------------------------------


def test_what_a_living_writer_is_writing_is_not_swept(store: FolderStore, root: Path) -> None:
    living, dead = root / ".store" / "incoming" / "living", root / ".store" / "incoming" / "dead"
    dead.write_bytes(b"half")
    with living.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        FolderStore.open(root)
        assert incoming(root) == [living]
    FolderStore.open(root)
    assert incoming(root) == []
    assert store.list(EVERYTHING).objects == ()


def test_processes_share_a_folder_and_one_of_them_creates_each_object(root: Path) -> None:
    FolderStore.open(root)
    command = [sys.executable, "-m", "tests.store.writer", str(root), "rival", "40"]
    rivals = [subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("a", "b")]
    outputs = [rival.communicate(timeout=60)[0] for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0]
    won = [set(acknowledged(output)) for output in outputs]
    assert won[0] & won[1] == set()
    assert len(won[0] | won[1]) == 40


def test_a_process_that_stands_still_with_the_lock_is_told(
    store: FolderStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams_node.objects.folder.lock._WAIT_S", 0.05)
    with (root / ".store" / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            store.put(new_key(), DATA, write_id=new_write())
    store.put(new_key(), DATA, write_id=new_write())


def test_a_reader_beside_a_replacing_writer_sees_one_state_or_the_next(store: FolderStore) -> None:
    etag = store.put(OWNER, b"0", write_id=WriteId("w-0")).etag
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        last = 0
        while not stop.is_set():
            data, stored = store.get(OWNER)
            number = int(data)
            if stored.write_id != f"w-{number}" or stored.checksum != hashlib.sha256(data).hexdigest() or number < last:
                wrong.append((data, stored, last))
            last = number

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 150):
        etag = store.put(OWNER, b"%d" % number, write_id=WriteId(f"w-{number}"), if_match=etag).etag
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
