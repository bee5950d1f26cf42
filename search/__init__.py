"""Reserved for query answering, a later stage: nothing is here yet.

This room will turn a query into a plan, collect candidates, verify them against the entries and hand out pages and
aggregates. Until it does, the node serves no `_search` or `_aggregate` route, and nothing imports this package.
"""
