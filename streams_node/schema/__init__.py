"""Schemas: what a stream's records look like, version by version, and what of them can be searched.

Owns     rules over plain values; `search_config.py` is the member `search` of a registry.
Keeps    nothing here does I/O or imports another room of the node: `search.language`, the index builders and Spark
         workers read the same types.
"""
