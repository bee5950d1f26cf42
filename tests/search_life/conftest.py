"""A search has the time that a machine needs which does other things, too."""

import pytest


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams_node.http.search_request.TIMEOUT_MS_MAX", 30_000)
    monkeypatch.setattr("streams_node.answers.bounds.BYTES_MIN", 0)  # all companions are asked before they are fetched
