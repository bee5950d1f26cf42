"""Where sealed entries are: the objects that the catalogue names, as this node's database knows them.

Owns     the tables `objects`, `directories`, `stuck`, `unpublished`, `store_requests` and the node's own numbers.
Pulls    nothing; stages and readers call its functions with a connection.
Hands on facts of objects, and which of them holds an entry.
Keeps    an object is here only if a published generation names it; it changes nothing but its death and its dead count.
Dies     within a transaction: SQLite rolls it back, and the next start applies the published generation again.
"""
