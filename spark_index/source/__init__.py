"""The data source `streams`: entries of a bucket as a DataFrame, without a node.

Owns     the columns, the options, and how far a streaming query has come.
Pulls    the newest generation of the catalogue (catalogue.py), and the objects that it names (reading.py).
Hands on Arrow batches, one partition an object or a part of one.
Keeps    an entry comes once: it is in exactly one object of a generation. Trimmed entries, deleted streams and what a
         fork does not share come never, though objects may still hold them. Damaged bytes fail the query.
Dies     anywhere: a streaming query goes on from its checkpoint, which names sequences and no objects, so that objects
         may be merged meanwhile.

    from spark_index.source import register
    register(spark)
    spark.read.format("streams").option("store", "folder:/data/objects").option("stream", "orders").load()
"""

from spark_index.source.datasource import StreamsDataSource, register

__all__ = ["StreamsDataSource", "register"]
