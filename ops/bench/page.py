"""The admin page at full length: a minute of 2,000 messages a second, and a list of a million streams.

The tests of the page do the same with less of it: they assert the targets, this writes down what they measured. Needed:
Chromium, and the tools of the tests (`make install-dev`).

python -m ops.bench.page --out PAGE.md             # 6 minutes
python -m ops.bench.page --data FOLDER             # keeps the node with a million streams, or takes it if it is there
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from ops.bench import machine
from ops.bench.options import ROOT

HERE = Path(__file__).parent
REPORTS = ROOT / ".reports" / "ui"
TOLD = ("load.txt", "many.txt")
TESTS = ("tests/ui/test_load.py", "tests/ui/test_many.py")
HEAD = """# The admin page at full length

`python -m ops.bench.page --out PAGE.md`, in headless Chromium against a node, both on this machine. The targets: no
task above 200 ms, in time of its thread, and a heap of at most 300 MB.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="of 2,000 messages each")
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="the folder of the node with so many streams")
    parser.add_argument("--out", type=Path, help="a file in this folder that it is written to")
    asked = parser.parse_args()
    chosen = {"STREAMS_UI_LOAD_S": str(asked.seconds), "STREAMS_UI_STREAMS": str(asked.streams)}
    if asked.data is not None:
        chosen["STREAMS_UI_STREAMS_DATA"] = str(asked.data.resolve())
    for name in TOLD:
        (REPORTS / name).unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", *TESTS]
    status = subprocess.run(command, cwd=ROOT, env=os.environ | chosen, check=False).returncode
    if status:
        return status
    lines = [f"- {(REPORTS / name).read_text('utf-8').strip()}" for name in TOLD]
    told = "\n".join([*lines, "", machine.stamp(HERE), ""])
    print(told)
    if asked.out is not None:
        (HERE / asked.out).write_text(HEAD + told, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
