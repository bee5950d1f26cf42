import json
import re
import tomllib
from collections.abc import Mapping
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.conftest import ROOT

LOCKS = {
    "requirements.lock": ("build",),
    "requirements-dev.lock": ("build", "dev"),
    "requirements-node.lock": ("node",),
    "requirements-java.lock": ("java",),
}
PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; [^\\\n]+)?(?P<hashes>(?: \\\n    --hash=sha256:\w{64})+)$"
)


@pytest.fixture(params=sorted(LOCKS))
def lock(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_requirement_is_an_exact_version_with_hashes(lock: str) -> None:
    assert [entry for entry in entries(lock) if not PIN.match(entry)] == []


def test_a_lock_holds_no_address_and_no_option(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert [line for line in text.splitlines() if line.startswith("-") or "# via" in line] == []


def test_a_lock_satisfies_what_the_project_asks_for(lock: str) -> None:
    pins = versions(lock)
    unmet = [wish for wish in wishes(lock) if not wish.specifier.contains(pins.get(wish.name, ""), prereleases=True)]
    assert unmet == []


def test_the_test_tools_do_not_change_a_version_of_the_server() -> None:
    assert versions("requirements.lock").items() <= versions("requirements-dev.lock").items()


def test_the_npm_lock_holds_hashes_and_no_addresses() -> None:
    packages = json.loads((ROOT / "tests/conformance/package-lock.json").read_bytes())["packages"]
    installed = [entry for path, entry in packages.items() if path]
    assert installed
    assert [entry for entry in installed if "resolved" in entry or "integrity" not in entry] == []


def entries(lock: str) -> list[str]:
    """One text for each requirement, continuation lines included."""
    text = (ROOT / lock).read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [entry for entry in re.split(r"\n(?! )", lines) if entry]


def versions(lock: str) -> Mapping[str, str]:
    pins = [match for entry in entries(lock) if (match := PIN.match(entry))]
    return {canonicalize_name(pin["name"]): pin["version"] for pin in pins}


def wishes(lock: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = chain.from_iterable(project["dependency-groups"][group] for group in LOCKS[lock])
    runtime = project["project"]["dependencies"] if "build" in LOCKS[lock] else []
    return [Requirement(text) for text in (*runtime, *groups)]
