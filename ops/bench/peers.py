"""Installs the two published servers and names their versions."""

import json
import shutil
import subprocess
from pathlib import Path

from ops.bench.errors import CannotRunError
from ops.bench.options import ROOT

FOLDER = Path(__file__).resolve().parent / "peers"
MODULES = FOLDER / "node_modules"
BUN = MODULES / ".bin" / "bun"
PRISMA_MAIN = MODULES / "@prisma" / "streams-server" / "src" / "server.ts"
REFERENCE_MAIN = FOLDER / "reference.mjs"
VERSION_SECONDS_MAX = 20


def ensure_installed() -> None:
    """Install what the lock file names, unless exactly that is there already."""
    pinned: dict[str, str] = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    if all(_installed_version(name) == version for name, version in pinned.items()):
        return
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise CannotRunError("node and npm are needed for the peers; install them, or leave the peers out by --servers")
    done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, check=False)
    if done.returncode != 0:
        raise CannotRunError("npm ci failed in ops/bench/peers; its own words are above")


def prisma_version() -> str:
    return f"{_installed_version('@prisma/streams-server')} on bun {program_version([str(BUN), '--version'])}"


def reference_version() -> str:
    return f"{_installed_version('@durable-streams/server')} on node {program_version(['node', '--version'])}"


def program_version(command: list[str]) -> str:
    """Take the last word of the first line, without a leading v; programs agree on little more."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    words = (done.stdout.splitlines() or [""])[0].split()
    return words[-1].removeprefix("v") if done.returncode == 0 and words else "unknown"


def _installed_version(package: str) -> str:
    try:
        manifest: dict[str, str] = json.loads((MODULES / package / "package.json").read_text())
    except FileNotFoundError:
        return ""
    return manifest["version"]
