"""The driver: takes claims of work from a node, has Spark do them, and commits what came of it.

Owns     one claim at a time (loop.py), its split into tasks (tasks.py) and what a task does in a worker (job.py); the
         process around it: its folder (workdir.py), its log (logs.py), its end with its parent (lifetime.py).
Pulls    claims, by a request that waits at the node (client.py).
Hands on index objects in the bucket, then one commit.
Keeps    nothing is committed but under a living lease. A claim that cannot be finished is given back. There is a JVM
         only while there is work, and for a while after it.
Dies     before the commit: the node's lease ends, and the work is claimable again; index objects that were put are
         nobody's, and collected. Between commit and answer: the commit is sent again, and the node knows it.
"""
