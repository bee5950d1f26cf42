"""What can go wrong in a run: one measurement, or all of it."""


class BenchError(Exception):
    """A measurement that cannot be used, with the reason for the report."""


class CannotRunError(Exception):
    """The run cannot start at all, with what to do about it."""
