"""What the routes of the reserved `__ds` space take and give, in words: a part of operations.py."""

from collections.abc import Mapping

from streams_node.http.operation import Answer, Operation, Schema

_TEXT: Schema = {"type": "string"}
_PATHS: Schema = {"type": "array", "items": {"type": "string"}}
_SUBSCRIPTION: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["webhook", "pull-wake"]},
        "pattern": {"type": "string", "examples": ["events/*", "tenants/**"]},
        "streams": {**_PATHS, "description": "Paths below `/v1/stream/`. At least one of `pattern` and `streams`."},
        "webhook": {"type": "object", "required": ["url"], "properties": {"url": _TEXT}},
        "wake_stream": {"type": "string", "description": "The path of a stream. `pull-wake` needs it."},
        "lease_ttl_ms": {"type": "integer", "minimum": 1000, "maximum": 600_000, "default": 30_000},
        "description": _TEXT,
    },
}
_NAMING: Schema = {"type": "object", "required": ["streams"], "properties": {"streams": _PATHS}}
_CLAIM: Schema = {"type": "object", "required": ["worker"], "properties": {"worker": _TEXT}}
_HELD: dict[str, object] = {"wake_id": _TEXT, "generation": {"type": "integer"}}
_HOLDING: Schema = {"type": "object", "required": ["wake_id", "generation"], "properties": _HELD}
_ACK: Schema = {
    "type": "object",
    "required": ["wake_id", "generation"],
    "properties": {
        **_HELD,
        "acks": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["stream", "offset"],
                "properties": {"stream": _TEXT, "offset": _TEXT},
            },
        },
        "done": {"type": "boolean", "default": False},
    },
}
_WRITE = "append_timeout overloaded outcome_unknown"
_BODY = "INVALID_REQUEST payload_too_large bad_request"
_FOUND = "SUBSCRIPTION_NOT_FOUND"
_HOLDER = f"{_BODY} {_FOUND} TOKEN_INVALID TOKEN_EXPIRED FENCED {_WRITE}"
_ACKED = Operation(
    "Stores how far streams have been processed, each offset included, all of them or none; and lengthens the lease, "
    "or with `done` ends the wake. A webhook's receiver uses `callback`, a worker `ack`; both show the wake's token as "
    "`Authorization: Bearer`.",
    "",
    (Answer(200, "It is stored.", "Cache-Control", "view"),),
    f"{_HOLDER} INVALID_OFFSET",
    takes=_ACK,
)

RESERVED_OPERATIONS: Mapping[str, Operation] = {
    "create": Operation(
        "Makes a subscription: to the streams that are named, and to those that match `pattern`, now or later. What is "
        "in them already is no news. The same request again confirms it.",
        "",
        (
            Answer(201, "The subscription is new.", "Cache-Control", "view"),
            Answer(200, "It was there, as asked.", "Cache-Control", "view"),
        ),
        f"{_BODY} WEBHOOK_URL_REJECTED SUBSCRIPTION_ALREADY_EXISTS SUBSCRIPTION_LIMIT {_WRITE}",
        takes=_SUBSCRIPTION,
    ),
    "get": Operation(
        "A subscription, and how far its streams were acknowledged: a thousand of them at most.",
        "",
        (Answer(200, "The subscription.", "Cache-Control", "view"),),
        f"bad_request {_FOUND} overloaded",
    ),
    "delete": Operation(
        "Ends a subscription, with everything that was acknowledged. Tokens of its wakes are worth nothing after that.",
        "",
        (Answer(204, "It is gone, or was never there.", "Cache-Control"),),
        f"bad_request {_WRITE}",
    ),
    "name": Operation(
        "Adds streams by name. Those that are new to the subscription begin at their ends; one that does not exist yet "
        "is all news once it does.",
        "",
        (Answer(204, "They belong to it.", "Cache-Control"),),
        f"{_BODY} {_FOUND} {_WRITE}",
        takes=_NAMING,
    ),
    "unname": Operation(
        "Takes a stream out that was added by name. If the pattern matches it, it stays for that.",
        "",
        (Answer(204, "It is not named any more.", "Cache-Control"),),
        f"{_BODY} {_FOUND} {_WRITE}",
    ),
    "claim": Operation(
        "Gives the worker the wake that was announced, or a new one if there is news; with a token, for as long as the "
        "lease. Only for `pull-wake`.",
        "",
        (Answer(200, "The wake is the worker's.", "Cache-Control", "view"),),
        f"{_BODY} {_FOUND} ALREADY_CLAIMED NO_PENDING_WORK {_WRITE}",
        takes=_CLAIM,
    ),
    "ack": _ACKED,
    "callback": _ACKED,
    "release": Operation(
        "Lets go of a wake, shown by its token as `Authorization: Bearer`, without acknowledging anything. What is "
        "pending is announced, or called, anew.",
        "",
        (Answer(204, "It is not held any more.", "Cache-Control"),),
        _HOLDER,
        takes=_HOLDING,
    ),
    "jwks": Operation(
        "The public keys (RFC 7517, RFC 8037) of signatures in `Webhook-Signature`.",
        "",
        (Answer(200, "The keys, the one that signs last.", "Cache-Control", "view"),),
        "",
    ),
}

LIST_OPERATION = Operation(
    "Every subscription in the order of their ids: the request that makes it again on another node, and how it is. A "
    "page may have fewer than `limit`, if they name very many streams.",
    "after limit.subscriptions",
    (Answer(200, "A page.", "Cache-Control", "view"),),
    "bad_request",
)

RESERVED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "SubscriptionPage": {
        "subscriptions": "The subscriptions.",
        "next_cursor": "To be sent as `after` for the next page; null on the last one.",
        "has_more": "Whether there is a next page.",
    },
    "SubscriptionEntry": {
        "id": "The id.",
        "request": "The body of the PUT that makes it again, with the streams that were named later.",
        "created_at": "When it was made.",
        "status": "`active`, or `failed` while it waits to call again.",
        "news": "How many streams with news the memory knows of.",
        "wake": "Where its wake stands.",
    },
    "SubscriptionBody": {
        "type": "`webhook` or `pull-wake`.",
        "pattern": "The glob; absent when there is none.",
        "streams": "What was named; absent when nothing was.",
        "webhook": "Where it is called; absent for `pull-wake`.",
        "wake_stream": "Where its wakes are announced; absent for `webhook`.",
        "lease_ttl_ms": "How long a holder has a wake without giving a sign of life.",
        "description": "As it was given; absent when it was not.",
    },
    "WebhookBody": {"url": "The address, with all that may be secret in it."},
    "WakeView": {
        "phase": "`idle`; `calling` a webhook, which has the wake once it has taken it; `announced`, or `claimed`.",
        "generation": "Which wake it is, or was.",
        "holder": "The worker that claimed it; null when none did.",
        "lease_ends_at": "When the lease ends; null while nobody has it.",
        "attempts": "Calls of this wake that came to nothing.",
        "next_attempt_at": "When the next call is due after one that came to nothing; null when none did.",
    },
    "SubscriptionView": {
        "id": "The id.",
        "subscription_id": "The same.",
        "type": "`webhook` or `pull-wake`.",
        "pattern": "The glob; absent when there is none.",
        "streams": "Its streams in the order of their names: the first thousand.",
        "webhook": "Where it is called, and how that is signed; absent for `pull-wake`.",
        "wake_stream": "Where its wakes are announced; absent for `webhook`.",
        "lease_ttl_ms": "How long a holder has a wake without giving a sign of life.",
        "created_at": "When it was made.",
        "status": "`active`, or `failed` while it waits to call again.",
        "description": "As it was given; absent when it was not.",
        "more_streams": "`true` when there are more streams than are shown; absent otherwise.",
    },
    "LinkView": {
        "path": "The path below `/v1/stream/`.",
        "link_type": "`explicit` when it was named, `glob` when only the pattern matches it.",
        "acked_offset": "How far it was acknowledged; `-1` for nothing.",
    },
    "WebhookView": {"url": "The address.", "signing": "How a receiver knows that a call is this node's."},
    "SigningView": {
        "alg": "`ed25519`.",
        "kid": "The key that signs now.",
        "jwks_url": "Where the public keys are.",
    },
    "WakeStream": {
        "path": "The path below `/v1/stream/`.",
        "link_type": "`explicit` when it was named, `glob` when only the pattern matches it.",
        "acked_offset": "How far it was acknowledged: read from here. `-1` for nothing.",
        "tail_offset": "The end of the stream as the wake began.",
        "has_pending": "Whether it has entries that were not acknowledged.",
    },
    "ClaimView": {
        "wake_id": "The wake.",
        "generation": "Which one of the subscription's: later ones have higher numbers.",
        "token": "To be sent with `ack` and `release` as `Authorization: Bearer`.",
        "streams": "Streams with news first; 256 of those at most, the others are the next wake's.",
        "lease_ttl_ms": "How long the worker has it without giving a sign of life.",
    },
    "AckView": {
        "ok": "`true`.",
        "next_wake": "Whether the next wake follows at once, after `done`.",
    },
    "JwksView": {"keys": "The keys."},
    "Jwk": {
        "kty": "`OKP`.",
        "crv": "`Ed25519`.",
        "use": "`sig`.",
        "alg": "`EdDSA`.",
        "kid": "As in `Webhook-Signature`: `ds_` and the thumbprint of RFC 7638.",
        "x": "The public key.",
    },
}
