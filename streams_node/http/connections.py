"""All connections of the node: how many, which are idle, and what waits for clients that do not read."""

from typing import Any

from streams_node.config import Settings
from streams_node.errors import Overloaded

_FEW = 8  # stalled connections: fewer cannot hold much, and need not be added up


class Connections:
    """All connections of the node: how many, and how many bytes wait for clients that do not read."""

    def __init__(self, settings: Settings) -> None:
        self.head_bytes_max = settings.header_bytes_max
        self.head_wait_s_max = settings.header_wait_ms_max / 1000
        self.stall_s_max = settings.send_stall_ms_max / 1000
        self.connections_max = settings.connections_max
        self.idle_s_max = settings.keep_alive_ms / 1000
        self.waiting_bytes_max = settings.answers_waiting_bytes_max
        self.protocols: set[Any] = set()
        self.stalled: set[Any] = set()

    def sweep(self, now: float) -> None:
        """Close connections that have been idle for too long."""
        for protocol in list(self.protocols):
            since = protocol.idle_since
            if since is not None and now - since > self.idle_s_max:
                protocol.transport.close()

    def admit_answer(self) -> None:
        """Refuse to make another large answer while slow clients hold too much of what was made before."""
        if len(self.stalled) >= _FEW and self.waiting_bytes() > self.waiting_bytes_max:
            raise Overloaded("answers that slow clients have not taken yet fill their buffers; try again")

    def waiting_bytes(self) -> int:
        """What has been written for clients that are slower than it."""
        return sum(protocol.transport.get_write_buffer_size() for protocol in self.stalled)
