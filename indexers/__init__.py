"""The index families: for each a builder, a merger and a reader of immutable runs, bytes or files in and out.

Owns     the formats of the runs (streams_node/docs/index-formats.md):
             lexicon    which routing keys a stream has, in byte order, and in which objects
             exact      which objects hold a value of a declared exact field, and a small filter before each run
             rollups    counts, summaries and histograms of windows of time
Pulls    nothing: columns come in as Arrow tables. Extracting them from entries is the caller's work.
Hands on `Written`: size and checksum of a run, for whoever keeps the catalogue.
Keeps    no framework, database, network or room of the node is imported, so any executor can run it. A run is sorted,
         versioned and checksummed; a damaged or newer one is `IndexDamaged`, never an answer. Merging costs memory by
         the number of runs, not by their size.
Dies     while writing: a file that nothing names.
"""
