"""The benchmark: our node beside two published servers, in one run, alternating.

Owns     nothing that outlives a run but `RESULTS.md` and `results.json`.
Pulls    the peers named in `peers/package.json`, and the node of this tree by its command line.
Hands on samples (`cell.py`), which `stats.py`, `targets.py` and `report.py` turn into tables.
Keeps    a number is only reported when the stored data was counted and equals what was acknowledged; servers that are
         not being measured are frozen, so each pays for its own background work in its own time and for nobody else's.
Dies     servers are told by the kernel to end when this process ends, however it ends; data folders under `.work/` may
         stay behind after a kill -9 and can be deleted.
"""
