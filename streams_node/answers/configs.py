"""Under which configurations indexes serve a stream as it is declared: known once for all that are declared alike."""

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from indexers.plan import Family, plan_of
from streams_node.meaning import Meaning

_known: WeakKeyDictionary[object, dict[bool, Mapping[Family, str]]] = WeakKeyDictionary()


def configs_of(meaning: Meaning | None, *, is_json: bool) -> Mapping[Family, str]:
    """Family -> hash of its configuration; on the event loop only."""
    if meaning is None or meaning.problem is not None:
        return {}
    found = _known.setdefault(meaning.common, {})
    if is_json not in found:
        found[is_json] = plan_of(meaning.registry, meaning.standing.profile, is_json=is_json).configs
    return found[is_json]
