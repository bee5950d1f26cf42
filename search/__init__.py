"""Query answering, without I/O and without an event loop.

`search.language` understands queries and evaluates them; `search.engine` answers them from companions and entries. The
node's part, `streams_node.searching`, finds those, says whose turn it is, and what an answer covers.
"""
