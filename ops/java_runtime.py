"""Installs Java for Spark, where the machine has none that Spark runs on.

Owns     the choice: the machine's own Java 17 or 21, else the pinned runtime of requirements-java.lock, which is
         installed into the environment of the running Python. `spark_index.java` finds either.
Dies     during the installation: pip does it again at the next call; nothing else is left behind.

    python -m ops.java_runtime
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from spark_index.java import NoJava, java_home

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-java.lock"


def main() -> int:
    if usable():
        return 0
    print("no Java 17 or 21 on this machine: installing the pinned one", file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    status = subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=False).returncode
    if status == 0 and not usable():
        print("the pinned Java runtime does not start here; install Java 17 or 21", file=sys.stderr)
        return 1
    return status


def usable() -> bool:
    """Whether Spark would find a Java."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            java_home(Path(folder))
        except NoJava:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
