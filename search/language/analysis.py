"""What a word is, and what white space is.

Owns     the analyser `unicode_word_v1` and the normaliser of keywords, for queries and for index builders alike.
Keeps    a word is a maximal run of letters and digits (general categories L and N) of the lower-cased text: no stems,
         no stop words, no folding, no limit of length; an underscore and a combining mark separate words. Lower case
         is the full mapping of Unicode with its context rule for a final sigma, so a builder must not lower character
         by character, as most tokenisers do: feed it with what `words` returns.
"""

import re

# What JavaScript calls white space: queries and values are trimmed and split at it. Python's own set differs at six
# characters.
WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

# `\w` is L, N and the underscore: tests/language/test_analysis.py looks at every code point.
_WORD = re.compile(r"[^\W_]+")
_BETWEEN = re.compile(r"[\W_]+")


def trim(text: str) -> str:
    return text.strip(WHITESPACE)


def words(text: str) -> list[str]:
    """The words of a text in their order, repetitions included."""
    return _WORD.findall(text.lower())


def spaced(lowered: str) -> str:
    """The words of a lower-cased text, each between two spaces of its own: ` card  declined `.

    What a clause asks of a text becomes a search in one string, at the speed of C and without a bad case: a word is
    ` card `, a beginning ` car`, a phrase ` card  declined `, and none of them overlaps with the next one.
    """
    return f" {_BETWEEN.sub('  ', lowered)} "


def needle(tokens: tuple[str, ...], *, prefix: bool) -> str:
    """Consecutive words as `spaced` has them; with `prefix` the last one may go on."""
    return f" {'  '.join(tokens)}{'' if prefix else ' '}"
