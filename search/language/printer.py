"""Syntax tree -> text that is read as the same tree.

Keeps    parse(print(tree)) == tree for every tree that a text has. A tree that no text has (a field named `has`, a word
         with a space in it) is a ValueError: only a programmer can build one.
"""

from search.language.lexer import is_word
from search.language.syntax import And, Bare, Fielded, Has, Literal, Node, Not, Op, Or

_JOINERS = {"AND", "OR"}


def print_query(tree: Node) -> str:
    match tree:
        case Or(parts):
            return " OR ".join(_inside(part, (Or,)) for part in parts)
        case And(parts):
            return " AND ".join(_inside(part, (And, Or)) for part in parts)
        case Not(part):
            return f"NOT {_inside(part, (And, Or))}"
        case _:
            return _clause(tree)


def _inside(tree: Node, wrapped: tuple[type, ...]) -> str:
    text = print_query(tree)
    return f"({text})" if isinstance(tree, wrapped) else text


def _clause(tree: Has | Fielded | Bare) -> str:
    match tree:
        case Has(name):
            return f"has:{_word(name)}"
        case Fielded(name, op, value):
            if name == "has":
                raise ValueError("no text spells a field named has")
            return _first(name, f":{'' if op is Op.EQ else op}{_literal(value)}")
        case Bare(value):
            return _literal(value) if value.quoted else _first(value.text, "")


def _first(word: str, rest: str) -> str:
    """The word that begins a clause. AND and OR do so only where no operator can stand: behind a parenthesis."""
    upper = _word(word).upper()
    if upper == "NOT":
        raise ValueError(f"no text begins a clause with {word}")
    return f"({word}{rest})" if upper in _JOINERS else f"{word}{rest}"


def _literal(value: Literal) -> str:
    if not value.quoted:
        return _word(value.text)
    escaped = value.text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _word(text: str) -> str:
    if not is_word(text):
        raise ValueError(f"{text!r} is not one word")
    return text
