"""Streams Node: a server of durable, append-only streams over HTTP, kept in SQLite and an object store.

The rooms, in the order in which one append passes them, are drawn in `docs/` of this package; each room's docstring
says what it owns, what it pulls, what it hands on, what it keeps, and what is left behind if the process dies in it.
"""

__version__ = "0.1.0.dev0"
