"""Settings of memory: how much the node may have, and what is made of that."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from streams_node.config.quantity import Bytes
from streams_node.config.searching import SearchSettings


class MemorySettings(SearchSettings):
    """Part of `Settings`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    memory_limit_bytes: Bytes = Field(
        default=0,
        ge=0,
        description="Memory that the process may have. From 80 % of it on, fewer searches run at once and none of them "
        "scans much; from 92 % on, one at a time, and no index driver is beside the node. 0 for no limit.",
    )
