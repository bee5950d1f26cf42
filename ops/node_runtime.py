"""Finds a Node.js runtime for the conformance suite.

Owns     the choice: PATH when it has a usable `node` and `npm`, else the pinned runtime of requirements-node.lock,
         which is installed into the environment of the running Python.
Hands on an environment for subprocesses in which `node` and `npm` are found.
Dies     during the installation: pip does it again at the next call; nothing else is left behind.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-node.lock"


def node_environment() -> dict[str, str]:
    """The current environment, with PATH changed only when its own runtime is missing or too old."""
    if _usable(os.environ):
        return dict(os.environ)
    scripts = Path(sys.prefix) / "bin"
    environment = {**os.environ, "PATH": os.pathsep.join((str(scripts), os.environ.get("PATH", os.defpath)))}
    if not _usable(environment):
        print("no usable Node.js on PATH: installing the pinned one", file=sys.stderr, flush=True)
        _install()
    if not _usable(environment):
        raise SystemExit("the pinned Node.js runtime does not start here; put node 20.19 or newer and npm on PATH")
    return environment


def supported(version: str) -> bool:
    """What vite demands, the strictest of the suite's tools: ^20.19.0 || >=22.12.0."""
    major, minor = version.strip().removeprefix("v").split(".")[:2]
    seen = (int(major), int(minor))
    return (20, 19) <= seen < (21, 0) or seen >= (22, 12)


def _usable(environment: Mapping[str, str]) -> bool:
    node, npm = (shutil.which(name, path=environment.get("PATH")) for name in ("node", "npm"))
    if node is None or npm is None:  # Debian ships them as two packages
        return False
    answer = subprocess.run([node, "--version"], env=environment, capture_output=True, text=True, check=False)
    return answer.returncode == 0 and supported(answer.stdout)


def _install() -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
