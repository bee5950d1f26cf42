"""Reserved for the index families, a later stage: nothing is here yet.

This room will hold one package a family (key lexicon, exact index, text companion, rollups, metrics), each bytes in
and bytes out, so that the same code runs in the node and in Spark workers. Until then nothing imports this package.
"""
