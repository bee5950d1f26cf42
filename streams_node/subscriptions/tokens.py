"""What the holder of a wake shows with each request: signed by the node, good for one wake, and not for ever."""

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

import msgspec

from streams_node.errors import TokenExpired, TokenInvalid
from streams_node.protocol.times import SECOND_US

LIFE_US = 3600 * SECOND_US
_TOKEN_CHARS_MAX = 512


class Claims(msgspec.Struct, frozen=True, array_like=True):
    """Which life of which subscription, which of its wakes, and until when."""

    subscription: int
    generation: int
    ends_us: int


class Shown(NamedTuple):
    """A token that the node made, and that is not over."""

    generation: int


def mint(secret: bytes, claims: Claims) -> str:
    payload = _text(msgspec.json.encode(claims))
    return f"{payload}.{_text(_mac(secret, payload))}"


def check(secret: bytes, token: str | None, subscription: int, now_us: int) -> Shown:
    """What a token says, if this node made it for this life of this subscription."""
    payload, dot, mac = (token or "").partition(".")
    if not dot or len(payload) > _TOKEN_CHARS_MAX or not (token or "").isascii():
        raise TokenInvalid("the token is none of this node's")
    if not hmac.compare_digest(_text(_mac(secret, payload)), mac):
        raise TokenInvalid("the token is none of this node's")
    try:
        claims = msgspec.json.decode(_bytes(payload), type=Claims)
    except (msgspec.DecodeError, binascii.Error):
        raise TokenInvalid("the token is none of this node's") from None
    if claims.subscription != subscription:
        raise TokenInvalid("the token is of another subscription")
    if now_us >= claims.ends_us:
        raise TokenExpired("the token is over; claim again, or wait for the next wake")
    return Shown(claims.generation)


def _mac(secret: bytes, payload: str) -> bytes:
    return hmac.new(secret, payload.encode(), hashlib.sha256).digest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
