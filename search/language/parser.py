"""Tokens -> syntax tree: one grammar, two dialects.

    query   := or
    or      := and ( "OR" and )*
    and     := unary ( ["AND"] unary )*
    unary   := ( "NOT" | "-" ) unary | primary
    primary := "(" or ")" | "has" ":" WORD | WORD ":" [ "=" | ">" | ">=" | "<" | "<=" ] ( WORD | STRING )
             | WORD | STRING                                                                 -- `q` only

Keeps    AND, OR and NOT count in any letter case, and only where the grammar looks for them: `AND card` searches for
         two words. Depth, clauses and characters are bounded before they cost anything; no input leads to another
         exception than QueryError.
"""

from dataclasses import dataclass

from search.language import limits
from search.language.errors import QueryError
from search.language.lexer import StringErrors, Token, TokenKind, tokens
from search.language.syntax import And, Bare, Fielded, Has, Literal, Node, Not, Op, Or


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    name: str
    bare: bool
    empty: str
    clause: str
    value: str
    close: str
    extra: str
    strings: StringErrors


_SEARCH = _Dialect(
    name="q",
    bare=True,
    empty="q must not be empty",
    clause="expected clause in search query",
    value="expected value in fielded search clause",
    close="missing ')' in search query",
    extra="unexpected token in search query",
    strings=StringErrors("unterminated quoted string in search query", "unterminated escape in query string"),
)
_FILTER = _Dialect(
    name="filter",
    bare=False,
    empty="filter must not be empty",
    clause="expected clause in filter",
    value="expected value in filter clause",
    close="missing ')' in filter",
    extra="unexpected token in filter",
    strings=StringErrors("unterminated quoted string in filter", "unterminated escape in filter string"),
)


def parse_query(text: str) -> Node:
    """The tree of a `q`."""
    return _parse(text, _SEARCH)


def parse_filter(text: str) -> Node:
    """The tree of a `filter`; it holds no `Bare`."""
    return _parse(text, _FILTER)


def _parse(text: str, dialect: _Dialect) -> Node:
    if len(text) > limits.QUERY_CHARS_MAX:
        raise QueryError(f"{dialect.name} must be at most {limits.QUERY_CHARS_MAX} characters", limits.QUERY_CHARS_MAX)
    found = tokens(text, dialect.strings)
    if not found:
        raise QueryError(dialect.empty, 0)
    parser = _Parser(found, len(text), dialect)
    tree = parser.either()
    if parser.token is not None:
        raise QueryError(dialect.extra, parser.token.position)
    return tree


class _Parser:
    """Reads tokens from left to right; a method a rule."""

    def __init__(self, found: list[Token], end: int, dialect: _Dialect) -> None:
        self._tokens = found
        self._end = end
        self._dialect = dialect
        self._index = 0
        self._depth = 0
        self._clauses = 0

    @property
    def token(self) -> Token | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def either(self) -> Node:
        parts = [self._both()]
        while self._takes_keyword("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self) -> Node:
        parts = [self._unary()]
        while self.token is not None and not self._is(TokenKind.CLOSE) and not self._is_keyword("OR"):
            self._takes_keyword("AND")
            parts.append(self._unary())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _unary(self) -> Node:
        if self._takes_keyword("NOT") or self._takes(TokenKind.MINUS) is not None:
            self._deeper()
            part = Not(self._unary())
            self._depth -= 1
            return part
        return self._primary()

    def _primary(self) -> Node:
        opened = self._takes(TokenKind.OPEN)
        if opened is not None:
            self._deeper()
            tree = self.either()
            if self._takes(TokenKind.CLOSE) is None:
                raise QueryError(self._dialect.close, opened.position)
            self._depth -= 1
            return tree
        first = self._takes(TokenKind.WORD, TokenKind.STRING)
        if first is None:
            raise QueryError(self._dialect.clause, self._here)
        self._count(first)
        if self._dialect.bare and (first.kind is TokenKind.STRING or not self._is(TokenKind.COLON)):
            return Bare(_literal(first))
        if first.kind is TokenKind.STRING:
            raise QueryError("expected field name in filter", first.position)
        if self._takes(TokenKind.COLON) is None:
            raise QueryError("expected ':' in filter clause", self._here)
        return self._after_colon(first)

    def _after_colon(self, first: Token) -> Node:
        if first.text == "has":
            name = self._takes(TokenKind.WORD)
            if name is None:
                raise QueryError("has: requires a field name", self._here)
            return Has(name.text, first.position)
        if first.text == "contains" and self._dialect.bare:
            raise QueryError("contains: is not supported on _search yet", first.position)
        operator = self._takes(TokenKind.OPERATOR)
        value = self._takes(TokenKind.WORD, TokenKind.STRING)
        if value is None:
            raise QueryError(self._dialect.value, self._here)
        return Fielded(first.text, Op(operator.text) if operator else Op.EQ, _literal(value), first.position)

    # --- tokens -----------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> int:
        return self._end if self.token is None else self.token.position

    def _is(self, kind: TokenKind) -> bool:
        return self.token is not None and self.token.kind is kind

    def _is_keyword(self, word: str) -> bool:
        token = self.token
        return token is not None and token.kind is TokenKind.WORD and token.text.upper() == word

    def _takes(self, *kinds: TokenKind) -> Token | None:
        token = self.token
        if token is None or token.kind not in kinds:
            return None
        self._index += 1
        return token

    def _takes_keyword(self, word: str) -> bool:
        found = self._is_keyword(word)
        self._index += found
        return found

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > limits.DEPTH_MAX:
            place = self._tokens[self._index - 1].position
            raise QueryError(f"{self._dialect.name} is nested too deeply (at most {limits.DEPTH_MAX})", place)

    def _count(self, first: Token) -> None:
        self._clauses += 1
        if self._clauses > limits.CLAUSES_MAX:
            message = f"{self._dialect.name} has too many clauses (at most {limits.CLAUSES_MAX})"
            raise QueryError(message, first.position)


def _literal(token: Token) -> Literal:
    return Literal(token.text, token.kind is TokenKind.STRING, token.position)
