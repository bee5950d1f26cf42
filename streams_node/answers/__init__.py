"""Answers out of index objects: which routing keys a stream has, and which of its entries a read need not look at.

Owns     what is in memory of index objects, each with a bound: open runs, filters, what was found in them, and the keys
         of entries that no lexicon covers.
Pulls    covers of a stream from `indexing`; whole index objects from a cache of their own; keys of what is not covered
         from the log and from sealed objects.
Hands on pages of distinct keys; for reads of some entries, the stretches that may hold them.
Keeps    an index only ever saves work: what it cannot say, for whatever reason, is looked up in the entries, so an
         answer is the same without it. An object that is damaged or away is "not covered", counted, and told to whoever
         can have it made again (`Runs.on_doubt`). No key of an entry below the earliest retained one is shown.
Dies     holds nothing that is not stored elsewhere.

    indexes = Indexes(database, cache)                                   # one a node; `await indexes.close()`
    found = await indexes.routing_keys(cold, state, config, after=None, limit=100, seconds=2.5)
    pruner = indexes.pruner(state.id, wants)                             # for one read: see `read.scan`

`configs.py` says which covers mean what a stream means, `runs.py` is what threads share, `pruning.py` asks for values,
`keys.py` reads keys of entries, `routing_keys.py` puts a page of them together.
"""

from streams_node.answers.configs import configs_of
from streams_node.answers.indexes import Indexes
from streams_node.answers.pruning import Want, filter_want, key_want
from streams_node.answers.routing_keys import KeysPage

__all__ = ["Indexes", "KeysPage", "Want", "configs_of", "filter_want", "key_want"]
