"""The one failure of this room: a query that is refused, with the place that is at fault."""

_SHOWN_CHARS = 60  # on either side of the place


class QueryError(ValueError):
    """`message` is what the client sees, word for word; `position` counts characters of the query from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, position)
        self.message = message
        self.position = position

    def pointed(self, text: str) -> str:
        """Two lines: the query around the fault, and a caret below it.

        >>> print(QueryError("expected value in fielded search clause", 7).pointed("status:-5"))
        status:-5
               ^
        """
        first = max(0, self.position - _SHOWN_CHARS)
        shown = text[first : self.position + _SHOWN_CHARS]
        line = "".join(character if character.isprintable() else " " for character in shown)
        return f"{line}\n{' ' * (self.position - first)}^"
