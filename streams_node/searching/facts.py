"""What an answer says of the companions that it rests on."""

from collections.abc import Sequence

from search.language import Compare, Prefix, Text, clauses
from streams_node.answers.bounds import Known
from streams_node.answers.views import Opened
from streams_node.schema.search_config import Kind
from streams_node.searching.asked import Asked


def families(asked: Asked) -> set[str]:
    """What of companions a query is answered by, in the words of the interface."""
    found = {"col"} if any(key.field is not None for key in asked.keys) else set[str]()
    for clause in clauses(asked.plan):
        if isinstance(clause, Text | Prefix) or (isinstance(clause, Compare) and clause.field.kind is Kind.KEYWORD):
            found.add("fts")
        else:
            found.add("col")
    return found


def primary(opened: Opened | None, ruled_out: Sequence[Known | None], field: str, stream: int) -> int | None:
    """The latest primary timestamp in companions that are of this stream only: opened ones, and others as known."""
    latest: list[int] = []
    for known in ruled_out:
        if known is None or known.stream != stream:
            return None
        if field in known.bounds:
            latest.append(int(known.bounds[field][1]))
    if opened is not None:
        if (field, stream) not in opened.latest:
            opened.latest[field, stream] = _latest(opened, field, stream)
        whole, most = opened.latest[field, stream]
        if not whole:
            return None
        latest += [] if most is None else [most]
    return max(latest, default=None)


def _latest(opened: Opened, field: str, stream: int) -> tuple[bool, int | None]:
    """Whether all of a view is of this stream, and the greatest value in it."""
    directories = [pack.directory for pack in opened.packs]
    if any(cover.stream != stream for each in directories for cover in each.covers):
        return False, None
    found = (facts.most for each in directories for facts in each.fields if facts.name == field)
    return True, max((int(most) for most in found if most is not None), default=None)
