import json

from tests.clients.conftest import HERE


def test_the_npm_lock_holds_hashes_and_no_addresses() -> None:
    packages = json.loads((HERE / "package-lock.json").read_bytes())["packages"]
    installed = [entry for path, entry in packages.items() if path]
    assert installed
    assert [entry for entry in installed if "resolved" in entry or "integrity" not in entry] == []
