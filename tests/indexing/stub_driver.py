"""Stands in for `python -m spark_index`: writes down how it was started, and ends with its standard input.

python stub_driver.py RECORD MODE --node URL        MODE: wait, fail
"""

import json
import os
import sys
from pathlib import Path


def main() -> int:
    record, mode = Path(sys.argv[1]), sys.argv[2]
    url = sys.argv[sys.argv.index("--node") + 1]
    with record.open("a") as lines:
        names = {"token": "STREAMS_TOKEN", "store_key": "AWS_ACCESS_KEY_ID"}
        seen = {name: os.environ.get(variable) for name, variable in names.items()}
        lines.write(json.dumps({"pid": os.getpid(), "url": url, **seen}) + "\n")
    sys.stderr.write(json.dumps({"level": "warning", "event": "started", "mode": mode}) + "\nno JSON at all\n")
    sys.stderr.flush()
    if mode == "fail":
        return 3
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
