import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "modules",
    ["streams_node.segmenter.stage", "streams_node.segments.directory", "streams_node.worker.parent"],
)
def test_the_node_loads_no_arrow_before_it_reads_a_sealed_file(modules: str) -> None:
    code = f"import sys, {modules}; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
