"""What the edge asks of the tiers below the log; the composition root brings it."""

from typing import Protocol


class Tiers(Protocol):
    @property
    def generation(self) -> int:
        """The newest generation of the catalogue."""

    async def flush(self, row: int) -> None:
        """Return once the log up to a row is in the bucket."""


class NoTiers:
    """A node whose stages have not been started: whatever is flushed is not in the bucket yet."""

    generation = 0

    async def flush(self, row: int) -> None:
        """Nobody will."""
        raise TimeoutError(f"row {row} stays in the log")
