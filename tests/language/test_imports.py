"""A Spark worker loads the language alone: no framework, no database, no room of the node but its schema rules."""

import subprocess
import sys

from tests.tidy.conftest import ROOT

PROGRAM = """
import sys
before = set(sys.modules)
import search.language
print(" ".join(sorted({name for name in set(sys.modules) - before})))
"""
OURS = {"streams_node", "streams_node.schema", "streams_node.schema.search_config", "search", "search.language"}


def test_the_language_loads_next_to_nothing() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    foreign = {name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("search.language.")} == OURS
    assert {"asyncio", "sqlite3", "socket", "threading", "subprocess"} & set(loaded) == set()
