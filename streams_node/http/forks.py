"""The headers of a PUT that makes a fork."""

import re
from functools import partial

from streams_node.errors import InvalidRequest
from streams_node.http.context import Context
from streams_node.http.paths import V1, Target, bucket_target, v1_target
from streams_node.ingest.forks import ForkRequest
from streams_node.protocol import offsets
from streams_node.protocol.offsets import Position
from streams_node.read.boundaries import taken

_FROM, _OFFSET, _SUB = b"stream-forked-from", b"stream-fork-offset", b"stream-fork-sub-offset"
_WHOLE = re.compile(rb"0|[1-9][0-9]{0,15}")


def fork_of(context: Context, found: dict[bytes, bytes]) -> ForkRequest | None:
    """The fork that a PUT asks for; None when it asks for none."""
    if _FROM not in found:
        for name in (_OFFSET, _SUB):
            if name in found:
                raise InvalidRequest(f"header `{name.decode()}`", "sent together with Stream-Forked-From")
        return None
    position = None if _OFFSET not in found else _position(found[_OFFSET])
    sub = found.get(_SUB, b"0").strip()
    if not _WHOLE.fullmatch(sub):
        raise InvalidRequest(
            "Stream-Fork-Sub-Offset", "a whole number without sign or leading zeros", sub.decode("latin-1")
        )
    source = _source(found[_FROM].strip(), context.settings.stream_path_bytes_max)
    look = partial(taken, context.database, context.tiers.reader)
    return ForkRequest(source.name, position, int(sub), look)


def _source(path: bytes, path_bytes_max: int) -> Target:
    if not path.startswith(b"/"):
        raise InvalidRequest("Stream-Forked-From", "the path of a stream on this server", path.decode("latin-1"))
    target = v1_target(path, path_bytes_max=path_bytes_max) if path.startswith(V1) else bucket_target(path)
    if target.sub is not None:
        raise InvalidRequest("Stream-Forked-From", "the path of a stream, not of a part of one", path.decode("latin-1"))
    return target


def _position(value: bytes) -> Position:
    text = value.decode("latin-1").strip()
    position = offsets.START if text in ("-1", offsets.START_ALIAS) else offsets.decode(text)
    if position is None:
        raise InvalidRequest("Stream-Fork-Offset", "-1, or an offset that the source has issued", text)
    return position
