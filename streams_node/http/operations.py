"""What every route takes and gives, in words: the tables behind `/openapi.json` and the reference pages of the manual.

A route of `routes.py` has one row here under its name. Inputs, answer headers and error codes are described once and
named by rows. tests/docs holds the rows to the route table, to the error tree, and to what a node really answers.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from streams_node.http.aggregate_operation import AGGREGATE_OPERATIONS
from streams_node.http.declarations import PROFILE_UPDATE, REGISTRY_UPDATE, SCHEMA_CHECK
from streams_node.http.details_operation import DETAILS, PRODUCERS
from streams_node.http.flush_operation import FLUSH, FLUSH_COLD
from streams_node.http.index_operations import INDEX_CODES, INDEX_OPERATIONS, INDEX_REBUILD, INDEX_STATUS
from streams_node.http.operation import Answer, Operation, Schema
from streams_node.http.reserved import LIST_OPERATION, RESERVED_OPERATIONS
from streams_node.http.search_operation import SEARCH_OPERATIONS, SEARCH_OUTPUTS
from streams_node.http.server_operation import SERVER_OPERATIONS
from streams_node.http.ui_operation import UI_OPERATIONS


class Input(NamedTuple):
    """A part of the path, a parameter of the query, or a header of the request."""

    place: Literal["path", "query", "header"]
    schema: Schema
    text: str


class Code(NamedTuple):
    """What an error code means and what to do about it, and the headers that come with it."""

    text: str
    headers: str = ""


_TEXT: Schema = {"type": "string"}
_TRUE: Schema = {"type": "string", "enum": ["true"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_PRODUCER: Schema = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_MOMENT: Schema = {"type": "string", "examples": ["2030-01-31T12:00:00Z"]}

# A dot and what follows it tell two inputs of one name apart; on the wire only the part before it is seen.
INPUTS: Mapping[str, Input] = {
    "path": Input(
        "path",
        {"type": "string", "minLength": 1},
        "`stream`, which lies in the bucket `_default`, or `bucket/stream`, where the stream may hold more slashes. "
        "The bucket is made as it is named.",
    ),
    "bucket": Input("path", {"type": "string", "pattern": "^[a-z0-9_-]{4,64}$"}, "The id of a bucket."),
    "stream": Input(
        "path",
        {"type": "string", "minLength": 1},
        "The id of a stream in the bucket: UTF-8 without slashes; at most 122 bytes together with bucket and slash.",
    ),
    "key": Input(
        "path", {"type": "string", "minLength": 1}, "A routing key in percent encoding, slashes too: it is one segment."
    ),
    "asset": Input("path", {"type": "string", "minLength": 1}, "The version of the page, and the file in it."),
    "id": Input("path", {"type": "string", "minLength": 1, "maxLength": 128}, "The id of a subscription."),
    "offset": Input(
        "query",
        {"type": "string", "examples": ["-1", "now"]},
        "Where to begin: `-1` for the start, `now` for the end, or a `Stream-Next-Offset` of this stream. "
        "Without it and `since`, the start. A live read has to say one of them.",
    ),
    "since": Input(
        "query",
        _MOMENT,
        "Where to begin, if no `offset` says it: at the first entry of this time or later. RFC 3339 or Unix "
        "nanoseconds; what is finer than a microsecond is cut.",
    ),
    "key.query": Input("query", _TEXT, "Only entries with exactly this routing key; blank is none."),
    "filter": Input(
        "query",
        {"type": "string", "examples": ["service:api AND status:>=500"]},
        "Only entries of a JSON stream that match: `field:value`, `field:>=value`, `has:field`, `AND`, `OR`, `NOT`, "
        "parentheses. Fields are those of the schema's `search`. Not with `live=sse`.",
    ),
    "live": Input(
        "query",
        {"type": "string", "enum": ["long-poll", "true", "sse", "false"]},
        "`long-poll` (or `true`) waits for entries and answers once; `sse` sends them as they come.",
    ),
    "timeout": Input(
        "query",
        {"type": "string", "examples": ["2s", "1500"]},
        "How long a long-poll waits: a duration with `ms`, `s`, `m`, `h` or `d`; a bare number is milliseconds. "
        "More than `long_poll_ms_max` is cut to it.",
    ),
    "timeout_ms": Input("query", _COUNT, "The same in milliseconds; it wins over `timeout`."),
    "max_bytes": Input(
        "query",
        {"type": "integer", "minimum": 1},
        "The size of a page. An entry is never split, so a page may be larger by its only entry; "
        "more than `read_page_bytes_max` is cut to it.",
    ),
    "cursor": Input("query", _TEXT, "The `Stream-Cursor` that was seen last, so that caches do not serve a loop."),
    "format": Input(
        "query",
        {"type": "string", "enum": ["json", "raw"]},
        "`raw` gives the entries of a JSON stream one after another without array and commas; `json` is the default "
        "there, and an error on other streams.",
    ),
    "min_hot_bytes": Input(
        "query",
        {"type": "integer", "minimum": 0, "default": 0},
        "Do nothing while less of the stream than this is in the log only.",
    ),
    "max_bytes.flush": Input(
        "query",
        {"type": "integer", "minimum": 1},
        "Taken for the sake of programs that send it. A flush always takes the whole log, in pieces of "
        "`flush_bytes_max`.",
    ),
    "prefix": Input("query", _TEXT, "Only ids that begin so."),
    "after": Input("query", _TEXT, "Only ids that come after this one: the `next_cursor` of the page before."),
    "limit": Input("query", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 1000}, "Entries of a page."),
    "limit.subscriptions": Input(
        "query", {"type": "integer", "minimum": 1, "maximum": 100, "default": 100}, "Subscriptions of a page."
    ),
    "limit.keys": Input(
        "query", {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}, "Routing keys of a page."
    ),
    "after.keys": Input(
        "query",
        _TEXT,
        "Only keys that come after this one: the `next_after` of the page before. A blank one stands behind the blank "
        "key; leave it out to begin.",
    ),
    "limit.producers": Input(
        "query", {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}, "Producers of a page."
    ),
    "after.producers": Input("query", _TEXT, "Only ids that come after this one: the `next_after` of the page before."),
    "q.search": Input("query", _TEXT, "The query: words, `field:value`, `field:>=value`, `AND`, `OR`, `NOT`."),
    "size.search": Input(
        "query", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}, "Hits of a page."
    ),
    "sort.search": Input(
        "query", _TEXT, "Sort keys with commas between them: a field, `offset` or `_score`, with `:asc` or `:desc`."
    ),
    "search_after.search": Input("query", _TEXT, "The `next_search_after` of the page before, as JSON."),
    "timeout_ms.search": Input(
        "query", {"type": "number", "minimum": 0, "maximum": 3000, "default": 3000}, "The time that it may take."
    ),
    "explain.search": Input("query", {"type": "boolean", "default": False}, "Say where the time went."),
    "highlight.search": Input("query", {"type": "boolean", "default": False}, "Show what of a text matched."),
    "format.search": Input(
        "query",
        {"type": "string", "enum": ["json", "ndjson", "csv"], "default": "json"},
        "A line or a row a hit, instead of one JSON object.",
    ),
    "limit.streams": Input(
        "query", {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}, "Streams of a page."
    ),
    "offset.streams": Input("query", {"type": "integer", "minimum": 0, "default": 0}, "How many streams to skip."),
    "Accept": Input("header", _TEXT, "A value with `text/html`, as browsers send it, gets the page."),
    "Content-Type": Input(
        "header",
        {"type": "string", "default": "application/octet-stream"},
        "The type of all entries. Exactly `application/json` makes a stream of JSON messages.",
    ),
    "Content-Type.append": Input(
        "header", _TEXT, "The stream's type; parameters and case do not count. Needed with a body."
    ),
    "Stream-TTL": Input(
        "header",
        {"type": "string", "examples": ["3600", "24h"]},
        "The window of a stream that ends when nobody uses it: whole seconds, or a duration as `24h`.",
    ),
    "Stream-Expires-At": Input(
        "header", _MOMENT, "The moment at which the stream ends: RFC 3339 or Unix nanoseconds. Not with `Stream-TTL`."
    ),
    "Stream-Forked-From": Input(
        "header",
        {"type": "string", "examples": ["/v1/stream/orders"]},
        "The path of a stream whose beginning the new one shares: see forks.md.",
    ),
    "Stream-Fork-Offset": Input(
        "header", _TEXT, "Where the fork leaves its source: an offset of the source, by default its end."
    ),
    "Stream-Fork-Sub-Offset": Input(
        "header",
        {"type": "integer", "minimum": 0},
        "How much of the append at that offset the fork has, too: messages of JSON, or bytes.",
    ),
    "Stream-Closed": Input("header", _TRUE, "`true` in any case closes the stream with this request."),
    "Stream-Seq": Input(
        "header", _TEXT, "A text that has to be greater, byte by byte, than the last one of this stream."
    ),
    "Stream-Timestamp": Input(
        "header",
        _MOMENT,
        "The append's time: RFC 3339 or Unix nanoseconds, kept in microseconds. It is moved up to the time of the "
        "entry before it, and down to `timestamp_ahead_ms_max` from now.",
    ),
    "Stream-Key": Input("header", _TEXT, "A routing key for all entries of the append. It is stored."),
    "Producer-Id": Input("header", _TEXT, "The name of an idempotent producer; all three headers, or none."),
    "Producer-Epoch": Input("header", _PRODUCER, "The producer's epoch; a higher one fences all lower ones."),
    "Producer-Seq": Input("header", _PRODUCER, "Counts the producer's requests in its epoch, from 0."),
    "If-None-Match": Input("header", _TEXT, "Entity tags: 304 when the answer is still one of them."),
}  # fmt: skip

OUTPUTS: Mapping[str, str] = {
    "Content-Type": "The stream's type, as it was created; `text/event-stream` for `live=sse`.",
    "Location": "The absolute address of the new stream.",
    "Stream-Next-Offset": "The offset after everything this answer covers; after a write, the end of the stream.",
    "Stream-End-Offset": "The end of the stream as this answer was made.",
    "Stream-Up-To-Date": "`true` when the answer reaches the end; absent otherwise.",
    "Stream-Closed": "`true` when the stream is closed and the answer reaches its end; absent otherwise.",
    "Stream-Cursor": "To be sent back as `cursor` with the next long-poll; absent when the stream is closed.",
    "Stream-TTL": "The window in whole seconds, as it was asked for.",
    "Stream-Expires-At": "The moment at which the stream ends.",
    "Stream-SSE-Data-Encoding": "`base64` when the data of events is base64, as for all but text and JSON.",
    "Stream-Earliest-Offset": "The first offset that can still be read.",
    "Producer-Epoch": "The producer's epoch: of this request, or the one that fenced it.",
    "Producer-Seq": "The highest number accepted from this producer.",
    "Producer-Expected-Seq": "The number that would have been accepted.",
    "Producer-Received-Seq": "The number that was sent.",
    "ETag": "A strong tag of this life of the stream, the range, the closing, the form and what was selected.",
    "Stream-Filter-Scan-Limit-Reached": "`true` when a filtered page ends for what it took; its offset goes on.",
    "Stream-Filter-Scan-Limit-Bytes": "`filter_scan_bytes_max`; only with the header before.",
    "Stream-Filter-Scanned-Bytes": "What was examined. Less than the limit: the time was over.",
    "Cache-Control": "`public` (`private` on a node with a key), a minute and five more while it is asked for again; "
    "`no-store` where nothing may be kept.",
    "X-Accel-Buffering": "`no`: a proxy must pass events on as they come.",
    "Retry-After": "Seconds after which it makes sense to try again.",
    "Allow": "The methods of this address.",
    "WWW-Authenticate": "`Bearer`.",
    "X-Request-Id": "The id of this request in the node's log: the client's own if it is harmless.",
    "Vary": "`Accept`.",
    "Content-Security-Policy": "Nothing is loaded from elsewhere.",
    "Referrer-Policy": "`no-referrer`.",
    **SEARCH_OUTPUTS,
}  # fmt: skip

# Codes of failures that any request may meet: they stand in no row.
EVERYWHERE = "request_timeout request_header_fields_too_large internal unavailable"
CODES: Mapping[str, Code] = {
    "bad_request": Code(
        "A header, a parameter, the path or the body is not as described, or the stream never issued the offset. The "
        "message names it; the same request fails again.",
        "Stream-Next-Offset",
    ),
    "unauthorized": Code("The node has a key and the request did not show it.", "WWW-Authenticate"),
    "producer_fenced": Code(
        "A higher epoch of this producer is at work; `Producer-Epoch` says which. Stop, or begin a higher one.",
        "Producer-Epoch",
    ),
    "not_found": Code("There is no such stream, bucket or address. An expired or deleted stream is not there either."),
    "method_not_allowed": Code("The address knows other methods; `Allow` lists them.", "Allow"),
    "request_timeout": Code("The request took too long to arrive or to be answered. A read can be repeated."),
    "append_timeout": Code(
        "The commit took too long. It may be stored or not: compare `Stream-Next-Offset` before it is repeated; an "
        "idempotent producer just repeats it."
    ),
    "conflict": Code(
        "The stream exists with another type, lifetime or closing; or a lens is not between the current version and "
        "the next one."
    ),
    "bucket_exists": Code("The bucket exists already, made by a request or by the path of a stream."),
    "bucket_not_empty": Code("The bucket holds streams; delete them first."),
    "content_type_mismatch": Code("The body is of another type than the stream."),
    "sequence_regressed": Code(
        "`Stream-Seq` is not greater than the last one: another writer was there, or this is a repetition."
    ),
    "stream_closed": Code(
        "The stream is closed for good; `Stream-Next-Offset` is its end. Reads still work.",
        "Stream-Closed Stream-Next-Offset",
    ),
    **{code: Code(text) for code, text in INDEX_CODES.items()},
    "producer_limit": Code("The stream remembers as many producers as it may; another one cannot write to it."),
    "producer_gap": Code(
        "A number of the producer is missing; `Producer-Expected-Seq` says which would have been accepted.",
        "Producer-Expected-Seq Producer-Received-Seq",
    ),
    "gone": Code(
        "The offset stands for entries that are not there any more, and the headers say where to go on; or the stream "
        "was deleted, and is kept for its forks.",
        "Stream-Next-Offset Stream-Earliest-Offset",
    ),
    "payload_too_large": Code("The body has more bytes or messages than the node takes."),
    "request_header_fields_too_large": Code("The head of the request is larger than `header_bytes_max`."),
    "overloaded": Code(
        "A queue is full, more is on its way to the object store than `backlog_bytes_max`, or the stream has all the "
        "producers it can have. Nothing was stored; try again.",
        "Retry-After",
    ),
    "not_implemented": Code("A part of the protocol that this version does not have yet. Nothing was changed."),
    "internal": Code("A fault of the node. The request id leads to the line in its log."),
    "unavailable": Code(
        "The node stops, its disk is nearly full, a commit failed a moment ago, the object store has been behind for "
        "longer than `upload_lag_ms_max` or belongs to another node by now, or all places for live readers or "
        "connections are taken. Nothing was stored; try again.",
        "Retry-After",
    ),
    "outcome_unknown": Code(
        "The commit failed after the request was decided. It may be stored or not: compare `Stream-Next-Offset` before "
        "it is repeated; an idempotent producer just repeats it.",
        "Retry-After",
    ),
    "INVALID_REQUEST": Code(
        "A request of a subscription is not as described, or not for one of its type. The message names it; the same "
        "request fails again."
    ),
    "WEBHOOK_URL_REJECTED": Code(
        "The node does not call this address: it must be https and public, unless the operator allows more. The "
        "manual's page on subscriptions has the rules."
    ),
    "SUBSCRIPTION_NOT_FOUND": Code("There is no subscription with this id."),
    "SUBSCRIPTION_ALREADY_EXISTS": Code("The subscription exists with another configuration; delete it first."),
    "SUBSCRIPTION_LIMIT": Code("The node has `subscriptions_max` subscriptions already."),
    "TOKEN_INVALID": Code("The token is missing, or not of this subscription.", "WWW-Authenticate"),
    "TOKEN_EXPIRED": Code("The token is over, after an hour. Claim again, or await the next wake.", "WWW-Authenticate"),
    "FENCED": Code(
        "The wake is over, or somebody else's by now; `generation` is the current one. Stop working on it: nothing "
        "was stored."
    ),
    "INVALID_OFFSET": Code(
        "An acknowledged offset is before what was acknowledged, beyond the end, none of the stream's, or the stream "
        "is none of the subscription's. Nothing was stored, also of the others."
    ),
    "ALREADY_CLAIMED": Code("Another worker has the wake: `current_holder`, with `generation`."),
    "NO_PENDING_WORK": Code("Nothing is pending: another worker was faster, or what the wake was about is deleted."),
    "object_store_unavailable": Code(
        "The entries are only in the object store, and it does not answer. Ask again; other reads go on.", "Retry-After"
    ),
    "object_store_refused": Code(
        "The entries are only in the object store, and it refuses the node. An operator has to act; the message and "
        "the node's log say on what.",
        "Retry-After",
    ),
    "object_missing": Code(
        "An object that the catalogue names is not in the object store; `key` says which. The manual's "
        "page on recovery says what to do. Other streams are not touched."
    ),
    "object_corrupt": Code("The object store sends other bytes than were stored; `key` says of which object."),
    "object_damaged": Code(
        "A sealed object is not what it was when it was stored; `object` says which. The manual's "
        "page on recovery says what to do. Other streams are not touched."
    ),
}  # fmt: skip
_SEALED_CODES = "object_store_unavailable object_store_refused object_missing object_corrupt object_damaged"

_WRITE_INPUTS = "Stream-Closed Stream-Seq Stream-Timestamp Stream-Key Producer-Id Producer-Epoch Producer-Seq"
_WRITE_CODES = "bad_request not_found request_timeout append_timeout payload_too_large overloaded outcome_unknown"
_PAGE = "Content-Type Stream-Next-Offset Stream-End-Offset Stream-Up-To-Date Stream-Closed ETag Cache-Control"
_LIMIT = "Stream-Filter-Scan-Limit-Reached Stream-Filter-Scan-Limit-Bytes Stream-Filter-Scanned-Bytes"
_HEAD = (
    "Content-Type Stream-Next-Offset Stream-End-Offset Stream-Closed Stream-TTL Stream-Expires-At ETag Cache-Control"
)

_READ = Operation(
    "Reads a page from an offset on; with `live`, waits for entries or follows the stream. A page holds whole "
    "entries. With `key` or `filter` it holds those that fit, and its offset is behind all that were "
    "looked at. Other parameters are ignored, these come once each and not blank.",
    "offset since live timeout timeout_ms max_bytes cursor format key.query filter If-None-Match",
    (
        Answer(
            200,
            "A page: a JSON array for a JSON stream, the bytes of the entries otherwise. "
            "For `live=sse`, events until the stream is closed or a minute has passed.",
            f"{_PAGE} Stream-Cursor Stream-SSE-Data-Encoding X-Accel-Buffering {_LIMIT}",
            "entries",
        ),
        Answer(
            204,
            "A long-poll without news in time, or at the end of a closed stream.",
            "Stream-Next-Offset Stream-End-Offset Stream-Up-To-Date Stream-Closed Stream-Cursor Cache-Control",
        ),
        Answer(304, "The page is one of `If-None-Match`. Not for live reads and `offset=now`.", f"{_PAGE} {_LIMIT}"),
    ),
    f"bad_request not_found gone overloaded {_SEALED_CODES}",
)
_PK = _READ._replace(
    text=f"A read with this `key`; one in the query does not count. {_READ.text}",
    inputs=" ".join(name for name in _READ.inputs.split() if name != "key.query"),
)

_ROUTING_KEYS = Operation(
    "The distinct routing keys of a stream whose schema says where they stand, in the order of their UTF-8, page by "
    "page. They come from the index, from the newest entries, and from one sealed object at most that is not indexed "
    "yet; `coverage` says whether others may be missing.",
    "limit.keys after.keys",
    (Answer(200, "A page.", "Cache-Control", "view"),),
    f"bad_request not_found overloaded {_SEALED_CODES}",
)

_STREAM: Mapping[str, Operation] = {
    "create": Operation(
        "Creates a stream, or confirms that it is there as asked. A body is the stream's first content: it is checked "
        "before anything exists and stored together with the stream. `[]` on a JSON stream is no content.",
        "Content-Type Stream-TTL Stream-Expires-At Stream-Forked-From Stream-Fork-Offset Stream-Fork-Sub-Offset "
        f"{_WRITE_INPUTS}",
        (
            Answer(
                201,
                "The stream is new.",
                "Location Content-Type Stream-Next-Offset Stream-Closed Producer-Epoch Producer-Seq",
            ),
            Answer(
                200,
                "It was there, with the same type, lifetime, closing and source. The body is ignored.",
                "Content-Type Stream-Next-Offset Stream-Closed",
            ),
        ),
        f"{_WRITE_CODES} conflict content_type_mismatch gone producer_gap",
        takes_entries=True,
    ),
    "append": Operation(
        "Appends entries, closes the stream, or both in one. On a JSON stream the body is one message, or an array "
        "whose elements are the messages; on any other stream the body is one entry. The answer comes after the commit "
        "was synced to disk.",
        f"Content-Type.append {_WRITE_INPUTS}",
        (
            Answer(
                204,
                "Stored; or the stream was closed without a body; or a producer's request that is already stored.",
                "Stream-Next-Offset Stream-Closed Producer-Epoch Producer-Seq",
            ),
            Answer(
                200,
                "Stored, for a request with producer headers.",
                "Stream-Next-Offset Stream-Closed Producer-Epoch Producer-Seq",
            ),
        ),
        f"{_WRITE_CODES} gone producer_fenced content_type_mismatch sequence_regressed stream_closed producer_gap "
        "producer_limit",
        takes_entries=True,
    ),
    "read": _READ,
    "head": Operation(
        "What is known of a stream, without reading it. It does not restart the window of `Stream-TTL`. "
        "An error has its status and headers, and no body.",
        "If-None-Match",
        (
            Answer(200, "The stream is there.", _HEAD),
            Answer(304, "Nothing of it changed.", _HEAD),
        ),
        "bad_request not_found gone overloaded",
    ),
    "delete": Operation(
        "Deletes the stream and everything in it, for good; what forks of it share is kept for them. A stream that is "
        "created under the name later begins a life of its own: offsets of this one are answered with 410 there.",
        "",
        (Answer(204, "It is gone."),),
        "bad_request not_found gone append_timeout overloaded outcome_unknown",
    ),
}  # fmt: skip

_SCHEMA_GET = Operation(
    "Schemas version by version, the lenses between them, where each version begins, where routing keys stand, and "
    "what can be searched. Version 0 and empty members where nothing was ever declared.",
    "",
    (Answer(200, "The registry.", "Cache-Control", "view"),),
    "bad_request not_found overloaded",
)
_SCHEMA_UPDATE = Operation(
    "Installs the first schema of an empty stream, the next one together with a lens from the version before, or "
    "changes `routingKey` or `search` alone. Entries that are appended later are validated by it; earlier ones are "
    "shown as it has them, through the lenses.",
    "",
    (Answer(200, "It is stored; the whole registry.", "Cache-Control", "view"),),
    "bad_request not_found append_timeout conflict payload_too_large overloaded outcome_unknown",
    takes=REGISTRY_UPDATE,
)
_SCHEMA_CHECK = Operation(
    "What an update would come to, and which of some entries it would refuse; nothing is changed. An update that would "
    "be refused is answered as that would be.",
    "",
    (Answer(200, "It would be stored.", "Cache-Control", "view"),),
    "bad_request not_found conflict payload_too_large overloaded",
    takes=SCHEMA_CHECK,
)

_PROFILE_GET = Operation(
    "What kind of entries the stream takes; `generic` where nothing was ever declared.",
    "",
    (Answer(200, "The profile.", "Cache-Control", "view"),),
    "bad_request not_found overloaded",
)
_PROFILE_UPDATE = Operation(
    "Sets what kind of entries the stream takes, with the schema, the routing key and the search that belong to it, "
    "all or nothing. `evlog` and `metrics` need a JSON stream without entries; the kind that is set already takes "
    "another configuration at any time.",
    "",
    (Answer(200, "It is stored; the whole profile.", "Cache-Control", "view"),),
    "bad_request not_found append_timeout not_implemented payload_too_large overloaded outcome_unknown",
    takes=PROFILE_UPDATE,
)

OPERATIONS: Mapping[str, Operation] = {
    "root": Operation(
        "Name, version and the addresses to begin with; a page for browsers.",
        "Accept",
        (Answer(200, "Where to begin.", "Cache-Control Vary Content-Security-Policy Referrer-Policy", "json html"),),
        "",
    ),
    "health": Operation("The process answers.", "", (Answer(200, "It does.", "Cache-Control", "view"),), ""),
    "healthz": Operation("The process answers.", "", (Answer(200, "It does.", "Cache-Control", "view"),), ""),
    "livez": Operation(
        "The event loop moves. A probe that restarts the node should ask this.",
        "",
        (Answer(200, "It does.", "Cache-Control", "view"),),
        "",
    ),
    "readyz": Operation(
        "Whether reads and writes are taken. A load balancer should ask this.",
        "",
        (
            Answer(200, "They are.", "Cache-Control", "view"),
            Answer(503, "Writes are refused; the reasons are listed. Reads may still work.", "Cache-Control", "view"),
        ),
        "",
    ),
    "metrics": Operation(
        "Everything that is counted, for Prometheus.",
        "",
        (Answer(200, "Prometheus text, version 0.0.4.", "Cache-Control", "text"),),
        "",
    ),
    "openapi": Operation(
        "This interface as an OpenAPI 3.1 document.", "", (Answer(200, "The document.", "Cache-Control", "json"),), ""
    ),
    "docs": Operation(
        "This interface as a page; it needs nothing from elsewhere.",
        "",
        (Answer(200, "The page.", "Cache-Control Vary Content-Security-Policy Referrer-Policy", "html"),),
        "",
    ),
    **UI_OPERATIONS,
    "streams": Operation(
        "The streams of all buckets, bucket by bucket, each in byte order.",
        "limit.streams offset.streams",
        (Answer(200, "A page; it is shorter than `limit` only at the end of the list.", "Cache-Control", "view"),),
        "bad_request overloaded",
    ),
    "bucket.create": Operation(
        "Creates a bucket.",
        "",
        (Answer(201, "The bucket is new.", "Cache-Control", "view"),),
        "bad_request append_timeout bucket_exists overloaded outcome_unknown",
    ),
    "bucket.get": Operation(
        "A bucket and the number of its streams.",
        "",
        (Answer(200, "The bucket.", "Cache-Control", "view"),),
        "bad_request not_found overloaded",
    ),
    "bucket.delete": Operation(
        "Deletes a bucket that holds no stream.",
        "",
        (Answer(204, "It is gone.", "Cache-Control"),),
        "bad_request not_found append_timeout bucket_not_empty overloaded outcome_unknown",
    ),
    "bucket.streams": Operation(
        "The streams of a bucket in byte order of their ids.",
        "prefix after limit",
        (Answer(200, "A page.", "Cache-Control", "view"),),
        "bad_request not_found overloaded",
    ),
    "pk.read": _PK,
    "bucket.pk.read": _PK,
    "sub.flush": FLUSH,
    "bucket.sub.flush": FLUSH,
    "sub.routing-keys": _ROUTING_KEYS,
    "bucket.sub.routing-keys": _ROUTING_KEYS,
    "sub.schema.get": _SCHEMA_GET,
    "bucket.sub.schema.get": _SCHEMA_GET,
    "sub.schema.check": _SCHEMA_CHECK,
    "bucket.sub.schema.check": _SCHEMA_CHECK,
    "sub.schema.update": _SCHEMA_UPDATE,
    "bucket.sub.schema.update": _SCHEMA_UPDATE,
    "sub.profile.get": _PROFILE_GET,
    "bucket.sub.profile.get": _PROFILE_GET,
    "sub.profile.update": _PROFILE_UPDATE,
    "bucket.sub.profile.update": _PROFILE_UPDATE,
    "flush-cold": FLUSH_COLD,
    "sub.details": DETAILS,
    "bucket.sub.details": DETAILS,
    "sub.producers": PRODUCERS,
    "bucket.sub.producers": PRODUCERS,
    "sub.index-status": INDEX_STATUS,
    "bucket.sub.index-status": INDEX_STATUS,
    "sub.index-rebuild": INDEX_REBUILD,
    "bucket.sub.index-rebuild": INDEX_REBUILD,
    **INDEX_OPERATIONS,
    **SEARCH_OPERATIONS,
    **AGGREGATE_OPERATIONS,
    **SERVER_OPERATIONS,
    "server.subscriptions": LIST_OPERATION,
    **{f"subscription.{name}": operation for name, operation in RESERVED_OPERATIONS.items()},
    **{f"stream.{name}": operation for name, operation in _STREAM.items()},
    **{f"bucket.stream.{name}": operation for name, operation in _STREAM.items()},
}  # fmt: skip
