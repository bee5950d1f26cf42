"""A message that quotes a client is no longer than a message should be."""

from streams_node.errors import BadFilter, BadSearch


def test_what_a_client_sent_is_not_sent_back_whole() -> None:
    for kind in (BadSearch, BadFilter):
        assert kind("unknown search field x").message == "unknown search field x"
        long = kind(f"unknown search field {'9' * 4000}", position=7)
        assert len(long.message) == 1001
        assert long.message.endswith("9\u2026")
