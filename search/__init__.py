"""Query answering. So far the room holds only the query language; see `search.language`.

A later stage will turn a plan into candidates, verify them against the entries and hand out pages and aggregates. Until
it does, the node serves no `_search` or `_aggregate` route.
"""
