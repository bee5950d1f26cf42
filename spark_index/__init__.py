"""Reserved for the PySpark program that builds indexes, a later stage: nothing is here yet.

This room will read sealed data once, call the families in `indexers` and publish what they return. Until then no
Spark session is started, pyspark is no dependency, and nothing imports this package.
"""
