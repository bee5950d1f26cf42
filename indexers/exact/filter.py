"""A blocked Bloom filter over the hashes of a run: a `no` costs one look at 64 bytes.

4 bytes   b"SNXF"
u8        version, 1
u8        probes, 5
u16le     0
u64le     keys: distinct hashes in it
u32le     n, the number of blocks, at least 1
u64le     xxh3_64 of the 20 bytes above and all blocks
64 × n    blocks; bit i of a block is bit i & 7 of its byte i >> 3

A hash h is in block ((h >> 32) × n) >> 32; its bits there are the five groups of nine bits of h, from the lowest up.
"""

import struct
from array import array
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from indexers.runs import IndexDamaged, IndexTooNew

_MAGIC, _VERSION, _PROBES = b"SNXF", 1, 5
_HEAD = struct.Struct("<4sBBHQI")
_SUM = struct.Struct("<Q")
_START = _HEAD.size + _SUM.size
_BLOCK_BYTES = 64
_BLOCK_BITS = 8 * _BLOCK_BYTES
_PROBE_BITS = 9
_BLOCK_KEYS = 42  # 12 bits a key: about 0.7 % of absent keys find a `maybe`
_FOLDS = 4  # a filter is sized by a bound of its keys, and halved while it turns out half empty
_BLOCKS_MAX = 1 << 24  # 1 GiB, for 700 million keys; beyond that the filter only gets worse
_BATCH_KEYS = 1 << 19  # 30 MB of positions at a time


class Filter:
    """Which hashes a run may hold."""

    __slots__ = ("_blocks", "_data", "keys")

    def __init__(self, data: bytes, *, name: str = "filter") -> None:
        if len(data) < _START or data[:4] != _MAGIC:
            raise IndexDamaged(name, "it is no filter of an exact index")
        _, version, probes, zero, self.keys, self._blocks = _HEAD.unpack_from(data)
        if version > _VERSION:
            raise IndexTooNew(name, f"the filter has version {version}, this version knows {_VERSION}")
        if (version, probes, zero) != (_VERSION, _PROBES, 0) or not self._blocks:
            raise IndexDamaged(name, "the head of the filter cannot be read")
        if len(data) != _START + self._blocks * _BLOCK_BYTES:
            raise IndexDamaged(name, f"the filter has {len(data)} bytes, and not what its head says")
        if _SUM.unpack_from(data, _HEAD.size)[0] != _checksum(data[: _HEAD.size], memoryview(data)[_START:]):
            raise IndexDamaged(name, "the checksum of the filter is another")
        self._data = data

    def may_hold_hash(self, value: int) -> bool:
        """False: the run holds no value with this hash."""
        start = _START + (((value >> 32) * self._blocks) >> 32) * _BLOCK_BYTES
        for _ in range(_PROBES):
            bit = value & (_BLOCK_BITS - 1)
            if not self._data[start + (bit >> 3)] >> (bit & 7) & 1:
                return False
            value >>= _PROBE_BITS
        return True


class FilterBuilder:
    """Collects hashes. `keys_max` is a bound of how many distinct ones come."""

    def __init__(self, keys_max: int) -> None:
        step = 1 << _FOLDS
        wanted = -(-keys_max // _BLOCK_KEYS)
        self._blocks = min(_BLOCKS_MAX, max(1, wanted if wanted < step else -(-wanted // step) * step))
        self._bits = 0  # the whole filter as one integer, bit 0 first: `|` of two is one pass over memory
        self._pending = list[Any]()
        self._pending_keys = 0
        self._keys = 0

    def add(self, hashes: Any) -> None:
        """Distinct hashes, as an Arrow array of uint64."""
        self._pending.append(hashes)
        self._pending_keys += len(hashes)
        if self._pending_keys >= _BATCH_KEYS:
            self._settle()

    def finish(self) -> bytes:
        """The filter."""
        self._settle()
        blocks, data = self._blocks, self._bits.to_bytes(self._blocks * _BLOCK_BYTES, "little")
        while blocks % 2 == 0 and self._keys <= blocks // 2 * _BLOCK_KEYS:
            blocks, data = blocks // 2, _halved(data)
        head = _HEAD.pack(_MAGIC, _VERSION, _PROBES, 0, self._keys, blocks)
        return head + _SUM.pack(_checksum(head, data)) + data

    def _settle(self) -> None:
        if not self._pending_keys:
            return
        hashes = pa.concat_arrays(self._pending)
        self._keys += len(hashes)
        block = pc.shift_right(pc.multiply(pc.shift_right(hashes, _u64(32)), _u64(self._blocks)), _u64(32))
        base = pc.multiply(block, _u64(_BLOCK_BITS))
        probes = []
        for at in range(_PROBES):
            bits = pc.bit_wise_and(pc.shift_right(hashes, _u64(_PROBE_BITS * at)), _u64(_BLOCK_BITS - 1))
            probes.append(pc.add(base, bits))
        indices = pa.concat_arrays(probes).cast(pa.int64())
        # Where an index was scattered to, the result is valid: its validity bitmap is the filter.
        options = pc.ScatterOptions(max_index=self._blocks * _BLOCK_BITS - 1)
        scattered = pc.call_function("scatter", [pa.repeat(True, len(indices)), indices], options=options)  # noqa: FBT003
        size = self._blocks * _BLOCK_BYTES
        self._bits |= int.from_bytes(memoryview(scattered.buffers()[0])[:size], "little")
        self._pending, self._pending_keys = [], 0


def _halved(data: bytes) -> bytes:
    """The filter with half as many blocks: those of an even number 2n and of 2n + 1 become block n."""
    words = array("Q", data)
    size = _BLOCK_BYTES // words.itemsize
    folded = array("Q")
    for start in range(0, len(words), 2 * size):
        folded.extend(map(int.__or__, words[start : start + size], words[start + size : start + 2 * size]))
    return folded.tobytes()


def _checksum(head: bytes, blocks: "bytes | memoryview[int]") -> int:
    digest = xxhash.xxh3_64(head)
    digest.update(blocks)
    return digest.intdigest()


def _u64(value: int) -> Any:
    return pa.scalar(value, pa.uint64())
