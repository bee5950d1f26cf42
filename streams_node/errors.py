"""Every failure the node can name. Classes carry facts; `http/problems.py` alone knows status codes and headers.

StreamsError
├── InvalidRequest            a header, parameter, path or body is not what the protocol asks for
│   ├── InvalidOffset         well formed, but this stream never issued it
│   ├── BadProfile            a profile document, or an entry that its stream's profile cannot take
│   ├── BadFilter             a filter that is none, or that the stream cannot answer
│   ├── BadSearch             a search that is none, or that the stream cannot answer
│   ├── ReservedPath          a name that belongs to the node
│   ├── InvalidDeclaration    a schema, a lens, or what else is declared of a stream
│   ├── BadSubscription       a subscription, or a request of one, that is not as described
│   ├── WebhookRejected       an address that the node does not call
│   ├── InvalidEntry          an entry that its stream's schema or routing key does not allow
│   └── LensError             a stored entry cannot be shown as the current schema has it
├── Unauthorized              no key, or the wrong one
│   ├── TokenInvalid  TokenExpired    of a wake
├── Missing                   no such stream, bucket or route
│   ├── SubscriptionMissing
├── Gone                      the data was there: retention passed it, or forks keep a deleted source
├── MethodNotAllowed
├── Conflict                  the request contradicts what is stored
│   ├── StreamExists  BucketExists  BucketNotEmpty
│   ├── LensMismatch          a lens between other versions
│   ├── LeaseEnded            a claim of index work is over: another driver has it
│   ├── IndexRefused          an index commit that contradicts its claim, the store, or other indexes
│   ├── StreamClosed  ContentTypeMismatch  SequenceRegressed  ProducerGap  ProducerLimit
│   ├── SubscriptionExists  SubscriptionLimit
│   ├── WakeFenced            of a wake that is over, or somebody else's by now
│   ├── AckRefused  AlreadyClaimed  NothingPending
├── ProducerFenced            a newer epoch of the producer took over
├── TooLarge                  the body, or the head, of the request
├── TimedOut                  the request, or the wait for an append's commit
├── Overloaded                a queue or a backlog is full; comes back by itself
├── NotImplementedYet         described, and not built yet
├── StoreError                the object store did not do what was asked
│   ├── ObjectMissing         no object has this key
│   ├── PreconditionFailed    somebody else's object is there, and stays
│   ├── StoreUnavailable      slow, busy, away or full; comes back by itself
│   │   └── ShortHere         as is a machine that has nothing left to read an object with
│   ├── StoreRefused          credentials, rights, address: an operator has to act
│   ├── StoreCorrupt          other bytes than were stored
│   └── StoreUnsuitable       lacks something that the node cannot do without
└── Unavailable               shutting down, disk low, waiters full, or a commit failed
"""

import errno
from typing import ClassVar

_SHOWN_CHARS = 80  # of what a client sent: enough to recognise it
_MESSAGE_CHARS_MAX = 1000  # of one that quotes a query or a name as it was sent
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT}


class StreamsError(Exception):
    """A failure with a stable `code`, a message for people, and facts for programs."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts


class InvalidRequest(StreamsError):
    code = "bad_request"

    def __init__(self, what: str, expected: str, seen: object = None, **facts: object) -> None:
        shown = "" if seen is None else f", not {_shown(seen)}"
        super().__init__(f"{what} must be {expected}{shown}", **facts)


class InvalidOffset(StreamsError):
    code = "bad_request"

    def __init__(self, message: str, tail: str) -> None:
        super().__init__(message)
        self.tail = tail


class BadProfile(InvalidRequest):
    """Says what is wrong in the words that clients of the protocol know."""

    def __init__(self, message: str, **facts: object) -> None:
        StreamsError.__init__(self, message, **facts)


class BadFilter(InvalidRequest):
    """Says so in the words that clients of the protocol know; `position` is the character at fault."""

    def __init__(self, message: str, **facts: object) -> None:
        StreamsError.__init__(self, _clipped(message), **facts)


class BadSearch(InvalidRequest):
    """As BadFilter."""

    def __init__(self, message: str, **facts: object) -> None:
        StreamsError.__init__(self, _clipped(message), **facts)


class BadSubscription(InvalidRequest):
    """Codes of the reserved `__ds` space are in upper case, as its clients know them."""

    code = "INVALID_REQUEST"

    def __init__(self, message: str, **facts: object) -> None:
        StreamsError.__init__(self, message, **facts)


class WebhookRejected(InvalidRequest):
    code = "WEBHOOK_URL_REJECTED"

    def __init__(self, message: str, **facts: object) -> None:
        StreamsError.__init__(self, message, **facts)


class ReservedPath(StreamsError):
    code = "bad_request"


class InvalidDeclaration(StreamsError):
    code = "bad_request"


class InvalidEntry(StreamsError):
    code = "bad_request"


class LensError(StreamsError):
    code = "bad_request"


class Unauthorized(StreamsError):
    code = "unauthorized"


class TokenInvalid(Unauthorized):
    code = "TOKEN_INVALID"


class TokenExpired(Unauthorized):
    code = "TOKEN_EXPIRED"


class Missing(StreamsError):
    code = "not_found"


class SubscriptionMissing(Missing):
    code = "SUBSCRIPTION_NOT_FOUND"


class Gone(StreamsError):
    code = "gone"

    def __init__(self, message: str, *, next_offset: str | None = None, earliest: str | None = None) -> None:
        super().__init__(message)
        self.next_offset = next_offset
        self.earliest = earliest


class MethodNotAllowed(StreamsError):
    code = "method_not_allowed"

    def __init__(self, method: str, allow: str) -> None:
        super().__init__(f"{_shown(method)} is not allowed here; allowed: {allow}")
        self.allow = allow


class Conflict(StreamsError):
    code = "conflict"


class LensMismatch(Conflict):
    code = "conflict"


class StreamExists(Conflict):
    code = "conflict"


class BucketExists(Conflict):
    code = "bucket_exists"


class BucketNotEmpty(Conflict):
    code = "bucket_not_empty"


class ContentTypeMismatch(Conflict):
    code = "content_type_mismatch"


class SequenceRegressed(Conflict):
    code = "sequence_regressed"

    def __init__(self, last: str, seen: str) -> None:
        super().__init__(f"Stream-Seq must be greater than {_shown(last)}, not {_shown(seen)}")
        self.last = last
        self.seen = seen


class StreamClosed(Conflict):
    code = "stream_closed"

    def __init__(self, name: str, next_offset: str) -> None:
        super().__init__(f"stream `{name}` is closed at {next_offset}; reads still work")
        self.next_offset = next_offset


class LeaseEnded(Conflict):
    code = "lease_ended"

    def __init__(self, claim: str, fence: int) -> None:
        super().__init__(f"claim {_shown(claim)} with fence {fence} is over; claim again", fence=fence)


class IndexRefused(Conflict):
    """Nothing of the commit was stored."""

    code = "index_refused"


class ProducerLimit(Conflict):
    code = "producer_limit"


class ProducerGap(Conflict):
    code = "producer_gap"

    def __init__(self, expected: int, received: int) -> None:
        super().__init__(
            f"producer sequence {received} was received, {expected} was expected",
            expected_seq=expected,
            received_seq=received,
        )
        self.expected = expected
        self.received = received


class SubscriptionExists(Conflict):
    code = "SUBSCRIPTION_ALREADY_EXISTS"


class SubscriptionLimit(Conflict):
    code = "SUBSCRIPTION_LIMIT"


class WakeFenced(Conflict):
    code = "FENCED"


class AckRefused(Conflict):
    code = "INVALID_OFFSET"


class AlreadyClaimed(Conflict):
    code = "ALREADY_CLAIMED"

    def __init__(self, holder: str, generation: int) -> None:
        super().__init__(f"worker `{holder}` holds the wake", current_holder=holder, generation=generation)


class NothingPending(Conflict):
    code = "NO_PENDING_WORK"


class ProducerFenced(StreamsError):
    code = "producer_fenced"

    def __init__(self, current_epoch: int, seen: int) -> None:
        super().__init__(f"producer epoch {seen} is fenced by epoch {current_epoch}", current_epoch=current_epoch)
        self.current_epoch = current_epoch


class TooLarge(StreamsError):
    code = "payload_too_large"


class HeadTooLarge(StreamsError):
    code = "request_header_fields_too_large"


class RequestTimedOut(StreamsError):
    code = "request_timeout"

    def __init__(self) -> None:
        super().__init__("request timed out")


class AppendTimedOut(StreamsError):
    code = "append_timeout"

    def __init__(self) -> None:
        super().__init__("append timed out; append outcome is unknown, check Stream-Next-Offset before retrying")


class Overloaded(StreamsError):
    code = "overloaded"


class Unavailable(StreamsError):
    code = "unavailable"


class OutcomeUnknown(Unavailable):
    """The commit failed after the request was decided: it may or may not be on disk."""

    code = "outcome_unknown"

    def __init__(self) -> None:
        super().__init__("the commit failed; the outcome is unknown, check Stream-Next-Offset before retrying")


class NotImplementedYet(StreamsError):
    """Described by the protocols this node speaks, and not built yet."""

    code = "not_implemented"


class StoreError(StreamsError):
    """What `objects/` raises. `retryable`: the same request may succeed in a moment."""

    code = "object_store"
    retryable: ClassVar[bool] = False


class ObjectMissing(StoreError):
    code = "object_missing"

    def __init__(self, key: str) -> None:
        super().__init__(f"the object store has no object `{key}`", key=key)


class PreconditionFailed(StoreError):
    code = "object_precondition_failed"

    def __init__(self, key: str) -> None:
        super().__init__(f"object `{key}` is somebody else's by now; it was left as it is", key=key)


class StoreUnavailable(StoreError):
    """`outcome_unknown`: a write may have been carried out, now or even later, although its answer is an error."""

    code = "object_store_unavailable"
    retryable = True

    def __init__(self, message: str, *, outcome_unknown: bool = False, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown
        self.retry_after_ms = retry_after_ms


class ShortHere(StoreUnavailable):
    """The store is well; this machine has no room, memory or open files left to read what it gave."""

    @staticmethod
    def says(problem: OSError) -> bool:
        """Whether a failure is of the machine, and tells nothing of the file that it was met at."""
        return problem.errno in _SHORTAGES


class StoreRefused(StoreError):
    code = "object_store_refused"


class StoreCorrupt(StoreError):
    """Retryable, as damage on the way is cured by asking again; what stays is damage in the store."""

    code = "object_corrupt"
    retryable = True

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"object `{key}` is damaged: {problem}", key=key)


class StoreUnsuitable(StoreError):
    code = "object_store_unsuitable"


class Fenced(StoreError):
    """Another node owns the bucket by now: this one must not publish any more."""

    code = "fenced"


class CatalogueError(StoreError):
    """The catalogue cannot be used: damaged, incomplete, foreign or newer. The message says the way out."""

    code = "catalogue"


class ObjectDamaged(StoreError):
    """A sealed object's bytes are whole, and still not what its facts or its format say."""

    code = "object_damaged"

    def __init__(self, made: str, problem: str) -> None:
        super().__init__(f"sealed object `{made}` cannot be used: {problem}", object=made)


class WorkerFailed(StreamsError):
    """A worker process answered with an error, died, or took too long; the work may be tried again."""

    code = "worker"


class DataFolderError(StreamsError):
    """The data folder cannot be opened: locked by another process, written by a newer version, or damaged."""

    code = "data_folder"


class ListenError(StreamsError):
    """An address cannot be listened on: another process has it, or it is not this machine's."""

    code = "listen"


class InvariantBroken(StreamsError):
    """A promise of the code to itself does not hold; the stage that sees it stops."""

    code = "internal"


def invariant(condition: object, what: str, **facts: object) -> None:
    """Stays on in production: a broken promise stops the work before it reaches a disk."""
    if not condition:
        raise InvariantBroken(f"broken invariant: {what}", **facts)


def _shown(seen: object) -> str:
    text = str(seen)
    return f"`{text[:_SHOWN_CHARS]}…`" if len(text) > _SHOWN_CHARS else f"`{text}`"


def _clipped(message: str) -> str:
    """A message that names what a client sent, which may be long."""
    return message if len(message) <= _MESSAGE_CHARS_MAX else f"{message[:_MESSAGE_CHARS_MAX]}\u2026"
