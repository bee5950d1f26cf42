"""What a store can do, found out by doing it: on a few small objects of its own, which are removed again.

Owns     the keys below `probe/<run>/`. What a killed probe leaves is removed by a later one, when it is an hour old.
Keeps    a store that ignores conditions is recognised before anything that matters is written: it answers success
         where it had to refuse. Nothing outside `probe/` is written or read.
Dies     at any point: a few objects of some bytes each stay below `probe/`.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from streams_node.errors import PreconditionFailed, StoreCorrupt, StoreError, StoreUnavailable, StoreUnsuitable
from streams_node.objects.keys import PROBES, Key, ObjectId, parse, probe_key, probe_run
from streams_node.objects.payload import checksum_of
from streams_node.objects.protocol import ETag, ObjectStore, Stored, WriteId

Answer = Literal["yes", "no", "not asked"]

_CREATORS = 4
_ROUNDS = 3
_LEFT_OVER_US = 3600 * 1_000_000
_CONTENT = b"what a probe wrote"


class Finding(NamedTuple):
    """`needed`: without it the node does not use the store."""

    check: str
    promise: str
    needed: bool
    answer: Answer
    detail: str
    seconds: float


@runtime_checkable
class ChecksUploads(Protocol):
    """A store with a line between it and us, on which bytes can change."""

    def refuses_damaged_upload(self, key: Key, write_id: WriteId) -> bool: ...


def findings(store: ObjectStore, bare: ObjectStore, run: ObjectId) -> Iterator[Finding]:
    """Every check, in order; StoreUnavailable if the store does not answer. `bare` is `store` without retries."""
    with _cleaned_up(_Probe(store, bare, run)) as asked:
        blocked = False
        for check in _CHECKS:
            if blocked:
                yield Finding(check.name, check.promise, check.needed, "not asked", "", 0.0)
                continue
            finding = _found(check, asked)
            blocked = finding.answer == "no" and check.stops
            yield finding


def require_conditions(store: ObjectStore, run: ObjectId) -> None:
    """Refuse a store with which a late or rival request could destroy what others wrote; a handful of requests."""
    with _cleaned_up(_Probe(store, store, run)) as asked:
        asked.create()
        try:
            asked.if_absent()
            asked.if_match()
        except _LacksError as lack:
            raise StoreUnsuitable(
                f"{store.place} cannot be used: {lack}. Two nodes, or one late request, would overwrite what was "
                "written by another. Use the folder store, AWS S3, or another store with conditional writes; "
                "`streams-node store check` shows what this one can do"
            ) from lack
        except StoreCorrupt as damage:  # nothing of anybody's: the store answers, but not with what was just written
            raise StoreUnavailable(f"{store.place} does not send back what was written: {damage.message}") from damage


class _LacksError(Exception):
    """The store did something else than was promised; the text says what."""


class _Probe:
    """The checks. Each returns a remark, or raises `_LacksError`."""

    def __init__(self, store: ObjectStore, bare: ObjectStore, run: ObjectId) -> None:
        self.store = store
        self.run = run
        self._bare = bare
        self._object = probe_key(run, "object")
        self._other = probe_key(run, "other")
        self._writes = 0

    def reach(self) -> str:
        self.store.list(PROBES, limit=1)
        return ""

    def create(self) -> str:
        self._put(self._object, _CONTENT)
        return ""

    def read(self) -> str:
        self._has(_CONTENT, "an object that was just written")
        return ""

    def part(self) -> str:
        data = self.store.get(self._object, 5, 10).data
        _promised(data == _CONTENT[5:10], f"it sent {data!r} for five bytes from the middle")
        return ""

    def facts(self) -> str:
        stored = self._head()
        _promised(stored.size == len(_CONTENT), f"it says {stored.size} bytes of {len(_CONTENT)}")
        _promised(stored.write_id is not None, "it does not keep the metadata that settles lost answers")
        _promised(stored.checksum == checksum_of(_CONTENT), "it does not keep the checksum")
        return ""

    def if_absent(self) -> str:
        with contextlib.suppress(PreconditionFailed):
            self._put(self._object, b"written over")
            raise _LacksError("it ignores If-None-Match: it overwrote an object that was there")
        self._has(_CONTENT, "an object that was not to be overwritten")
        return ""

    def if_match(self) -> str:
        first = self._head().etag
        self._put(self._object, b"replaced", if_match=first)
        self._has(b"replaced", "an object that was just replaced")
        with contextlib.suppress(PreconditionFailed):
            self._put(self._object, b"from an old state", if_match=first)
            raise _LacksError("it ignores If-Match: it replaced an object that had changed meanwhile")
        with contextlib.suppress(PreconditionFailed):
            self._put(self._other, b"from nothing", if_match=first)
            raise _LacksError("it ignores If-Match: it created an object that was to be replaced")
        return ""

    def race(self) -> str:
        for number in range(_ROUNDS):
            key = probe_key(self.run, f"race{number}")
            with ThreadPoolExecutor(_CREATORS) as pool:
                won = sum(pool.map(self._creates, [key] * _CREATORS))
            _promised(
                won == 1, f"of {_CREATORS} who created one object at the same moment, {won} were told that they did"
            )
        return f"{_ROUNDS} rounds of {_CREATORS}"

    def listing(self) -> str:
        whole = [one.key for one in self.store.list(probe_run(self.run)).objects]
        _promised(whole == sorted(whole), "its listings are not in byte order")
        first = self.store.list(probe_run(self.run), limit=1)
        _promised([one.key for one in first.objects] == whole[:1], "it does not keep to the size of a page")
        rest = self.store.list(probe_run(self.run), after=first.next_after)
        _promised(
            [one.key for one in rest.objects] == whole[1:], "a listing does not go on after the key that it is given"
        )
        return f"{len(whole)} objects"

    def listed_at_once(self) -> str:
        keys = {one.key for one in self.store.list(probe_run(self.run)).objects}
        _promised(self._object in keys, "an object that was just written is not listed yet")
        return ""

    def upload(self) -> str:
        if not isinstance(self._bare, ChecksUploads):
            return "there is no line on which bytes could change"
        refused = self._bare.refuses_damaged_upload(probe_key(self.run, "damaged"), self._next_write())
        _promised(refused, "it took bytes that do not fit their checksum; damage is noticed when they are read")
        return ""

    def remove(self) -> str:
        self.store.delete(self._object)
        _promised(self.store.head(self._object) is None, "a deleted object is still there")
        self.store.delete(self._object)
        return ""

    def clean_up(self) -> None:
        mine = self.store.list(probe_run(self.run)).objects
        for one in mine:
            self.store.delete(one.key)
        # By the store's own clock, which need not be ours.
        now = max((one.modified_us for one in mine), default=0)
        for one in self.store.list(PROBES).objects:
            if parse(one.key) is not None and one.modified_us < now - _LEFT_OVER_US:
                self.store.delete(one.key)

    def _creates(self, key: Key) -> bool:
        try:
            self._put(key, b"won")
        except PreconditionFailed:
            return False
        return True

    def _put(self, key: Key, data: bytes, if_match: ETag | None = None) -> Stored:
        return self.store.put(key, data, write_id=self._next_write(), if_match=if_match)

    def _next_write(self) -> WriteId:
        self._writes += 1
        return WriteId(f"{self.run}-{self._writes}")

    def _head(self) -> Stored:
        stored = self.store.head(self._object)
        if stored is None:
            raise _LacksError("it does not know an object that was just written")
        return stored

    def _has(self, content: bytes, what: str) -> None:
        data = self.store.get(self._object).data
        _promised(data == content, f"{what} reads as {data[:40]!r}")


class _Check(NamedTuple):
    name: str
    promise: str
    run: Callable[[_Probe], str]
    needed: bool = True
    stops: bool = False  # nothing after it can be asked without it


_CHECKS = (
    _Check("reach", "it answers, and lists keys", _Probe.reach, stops=True),
    _Check("put", "objects can be created", _Probe.create, stops=True),
    _Check("get", "a new object is read at once", _Probe.read),
    _Check("range", "a part of an object can be read", _Probe.part),
    _Check("head", "size, write id and checksum are kept", _Probe.facts),
    _Check("if_absent", "an existing object is not overwritten", _Probe.if_absent),
    _Check("if_match", "an object is replaced only by who knows its state", _Probe.if_match),
    _Check("race", "of rivals at one moment exactly one wins", _Probe.race),
    _Check("list", "listings are in byte order and go on after a key", _Probe.listing),
    _Check("list_at_once", "a new object is listed at once", _Probe.listed_at_once, needed=False),
    _Check("upload_checksum", "an upload damaged on its way is refused", _Probe.upload, needed=False),
    _Check("delete", "objects can be deleted", _Probe.remove),
)


def _found(check: _Check, asked: _Probe) -> Finding:
    begun = time.perf_counter()
    answer: Answer = "yes"
    try:
        detail = check.run(asked)
    except StoreUnavailable:
        raise
    except (_LacksError, StoreError) as lack:
        answer, detail = "no", str(lack)
    return Finding(check.name, check.promise, check.needed, answer, detail, time.perf_counter() - begun)


def _promised(kept: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not kept:
        raise _LacksError(otherwise)


@contextlib.contextmanager
def _cleaned_up(asked: _Probe) -> Iterator[_Probe]:
    try:
        yield asked
    finally:
        with contextlib.suppress(StoreError):  # whoever may not delete is told so by its check
            asked.clean_up()
