"""Which copies there are, and which leave: plain values, no I/O."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True, eq=False)
class Copy:
    """A file. `kept` says that the shelf counts it; what it does not count goes when its last reader has left."""

    made: str
    path: Path
    size: int
    verified: bool
    kept: bool = True
    pins: int = 0


class Shelf:
    """Copies in the order of their last use."""

    def __init__(self, bytes_max: int) -> None:
        self._copies: OrderedDict[str, Copy] = OrderedDict()
        self._bytes_max = bytes_max
        self._promised = 0  # to copies that are being made
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._copies)

    def peek(self, made: str) -> Copy | None:
        return self._copies.get(made)

    def use(self, made: str) -> Copy | None:
        """The copy of an object, which now leaves last."""
        copy = self._copies.get(made)
        if copy is not None:
            self._copies.move_to_end(made)
        return copy

    def put(self, copy: Copy) -> list[Copy]:
        """Keep a copy; returns those that leave for it."""
        before = self.take(copy.made)
        self._copies[copy.made] = copy
        self.bytes += copy.size
        return ([before] if before else []) + self.leaving()

    def take(self, made: str) -> Copy | None:
        """Stop counting a copy."""
        copy = self._copies.pop(made, None)
        if copy is not None:
            copy.kept = False
            self.bytes -= copy.size
        return copy

    def promise(self, size: int) -> list[Copy]:
        """Make room for a copy that is to come; returns those that leave for it."""
        self._promised += size
        return self.leaving()

    def unpromise(self, size: int) -> None:
        self._promised -= size

    def leaving(self, bytes_max: int | None = None) -> list[Copy]:
        """Stop counting the longest unused until the rest fits; what is being read stays."""
        room = (self._bytes_max if bytes_max is None else bytes_max) - self._promised
        gone: list[Copy] = []
        for copy in list(self._copies.values()) if self.bytes > room else ():
            if self.bytes <= room:
                break
            if not copy.pins:
                self.take(copy.made)
                gone.append(copy)
        return gone
