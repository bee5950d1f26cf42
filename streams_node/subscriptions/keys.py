"""The node's keys for subscriptions: Ed25519 for webhooks, and a secret for tokens.

Owns     `webhook-keys.json` in the data folder, readable by the node's user alone; made when the first subscription is.
Keeps    a public key stays in the JWKS for a day after its successor began to sign.
Dies     before the rename: the old file stands, and the next start makes another new key.
"""

import base64
import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streams_node.errors import DataFolderError

FILE = "webhook-keys.json"
RETIRED_US = 24 * 3600 * 1_000_000
_SECRET_BYTES = 32
_SECOND_US = 1_000_000


class _Key(msgspec.Struct):
    created_us: int
    private: bytes
    retired_us: int = 0


class _File(msgspec.Struct):
    version: int
    token_secret: bytes
    signing: list[_Key]


class Jwk(msgspec.Struct):
    """A public key, as RFC 8037 has it."""

    kty: str
    crv: str
    use: str
    alg: str
    kid: str
    x: str


class Keys:
    """The keys of one data folder."""

    def __init__(self, folder: Path, *, age_us_max: int, now_us: Callable[[], int]) -> None:
        self._path = folder / FILE
        self._age_us_max = age_us_max
        self._now_us = now_us
        self._file: _File | None = None
        self._signer: tuple[str, Ed25519PrivateKey] | None = None

    @property
    def token_secret(self) -> bytes:
        return self._opened().token_secret

    @property
    def kid(self) -> str:
        """The key that signs."""
        return self._current()[0]

    def sign(self, body: bytes, now_us: int) -> str:
        """The value of `Webhook-Signature` for a body that leaves now."""
        kid, key = self._current()
        moment = now_us // _SECOND_US
        signature = key.sign(f"{moment}.".encode() + body)
        return f"t={moment},kid={kid},ed25519={_text(signature)}"

    def jwks(self) -> list[Jwk]:
        """Every key whose signatures may still be under way."""
        self._current()
        kept = [key for key in self._opened().signing if _kept(key, self._now_us())]
        return [jwk_of(Ed25519PrivateKey.from_private_bytes(key.private)) for key in kept]

    def _current(self) -> tuple[str, Ed25519PrivateKey]:
        file, now_us = self._opened(), self._now_us()
        newest = file.signing[-1]
        if self._age_us_max and now_us - newest.created_us >= self._age_us_max:
            newest.retired_us = now_us
            file.signing = [*(key for key in file.signing if _kept(key, now_us)), _new_key(now_us)]
            self._store(file)
            self._signer = None
        if self._signer is None:
            key = Ed25519PrivateKey.from_private_bytes(file.signing[-1].private)
            self._signer = (jwk_of(key).kid, key)
        return self._signer

    def _opened(self) -> _File:
        if self._file is None:
            self._file = self._load() or self._made()
        return self._file

    def _load(self) -> _File | None:
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as problem:
            raise DataFolderError(f"`{self._path}` cannot be used: {problem}; restore it, or remove it") from problem
        if not file.signing or file.version != 1:
            raise DataFolderError(f"`{self._path}` holds no key that this version knows; restore it, or remove it")
        return file

    def _made(self) -> _File:
        file = _File(1, secrets.token_bytes(_SECRET_BYTES), [_new_key(self._now_us())])
        self._store(file)
        return file

    def _store(self, file: _File) -> None:
        """Whole or not at all, and never readable by others."""
        temporary = self._path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as written:
            written.write(msgspec.json.encode(file))
            written.flush()
            os.fsync(handle)
        temporary.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def jwk_of(key: Ed25519PrivateKey) -> Jwk:
    """The public half. Its id is the thumbprint of RFC 7638."""
    x = _text(key.public_key().public_bytes_raw())
    print_of = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest()
    return Jwk("OKP", "Ed25519", "sig", "EdDSA", f"ds_{_text(print_of)}", x)


def _kept(key: _Key, now_us: int) -> bool:
    return not key.retired_us or now_us - key.retired_us < RETIRED_US


def _new_key(now_us: int) -> _Key:
    return _Key(now_us, Ed25519PrivateKey.generate().private_bytes_raw())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
