"""Text -> tokens, the same for `q` and `filter`.

Keeps    white space separates; `( ) : >= <= > < =` stand for themselves; `-` is a token only where a token begins; a
         double quote at the begin of a token opens a string in which a backslash takes the next character as it is;
         all else is a word up to white space, a parenthesis, a colon or an operator. Time is linear in the text.
"""

import re
from enum import Enum
from typing import NamedTuple

from search.language.analysis import WHITESPACE
from search.language.errors import QueryError


class TokenKind(Enum):
    WORD = "word"
    STRING = "string"
    OPERATOR = "operator"
    OPEN = "("
    CLOSE = ")"
    COLON = ":"
    MINUS = "-"


class Token(NamedTuple):
    kind: TokenKind
    text: str  # of a string: without quotes and escapes
    position: int  # of its first character in the query


class StringErrors(NamedTuple):
    """The texts for a string without an end: the two surfaces spell them differently."""

    quote: str
    escape: str


_OUTSIDE = f"{WHITESPACE}():><="  # characters that no word has
_WORD = rf'[^{_OUTSIDE}"-] [^{_OUTSIDE}]*'
_TOKEN = re.compile(
    rf"""
      [{WHITESPACE}]+
    | (?P<OPERATOR> [<>]=? | = )
    | (?P<OPEN> \( )
    | (?P<CLOSE> \) )
    | (?P<COLON> : )
    | (?P<MINUS> - )
    | (?P<STRING> " [^"\\]* (?: \\. [^"\\]* )* "? )
    | (?P<WORD> {_WORD} )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ONE_WORD = re.compile(_WORD, re.VERBOSE)


def tokens(text: str, errors: StringErrors) -> list[Token]:
    """All tokens; white space around the text has no part in it, so a lone backslash at its end escapes nothing."""
    found = []
    end = len(text.rstrip(WHITESPACE))
    for match in _TOKEN.finditer(text, 0, end):
        if match.lastgroup is None:
            continue
        kind = TokenKind[match.lastgroup]
        spelled = _unquoted(match, end, errors) if kind is TokenKind.STRING else match[0]
        found.append(Token(kind, spelled, match.start()))
    return found


def is_word(text: str) -> bool:
    """Whether a text, written as it is, is read as one word."""
    return _ONE_WORD.fullmatch(text) is not None


def _unquoted(match: re.Match[str], end: int, errors: StringErrors) -> str:
    spelled = match[0]
    if match.end() < end and match.string[match.end()] == "\\":  # one is left over: nothing stands behind it
        raise QueryError(errors.escape, match.end())
    body = _ESCAPED.sub(r"\1", spelled[1:])
    closed = len(spelled) > 1 and spelled[-1] == '"' and not _ends_in_escape(spelled)
    if not closed:
        raise QueryError(errors.quote, match.start())
    return body[:-1]


def _ends_in_escape(spelled: str) -> bool:
    """Whether the last character was taken by a backslash: an odd number of them stands before it."""
    before = spelled[1:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
