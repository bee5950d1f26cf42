"""PySpark reads the bucket: a data source for everybody, and the driver that turns sealed data into indexes.

Owns     the data source `streams` (`source`), the driver `python -m spark_index` (`driver`), and the session of both.
Pulls    claims of work from a node, by HTTP; sealed objects from the bucket.
Hands on rows to users; index objects to the bucket, and what is known of them to the node.
Keeps    what is indexed is decided by the node alone: a driver holds leases, and owns nothing. Credentials of the store
         come from the environment, never from a node, and never stand in a job.
Dies     anywhere: its lease ends, and the work is claimable again. Index objects that were put and not committed are
         collected by the node. No JVM outlives its driver, and no driver the node that started it.

`pyspark` is imported where a session is needed, not here: a driver without work has no JVM.
"""
