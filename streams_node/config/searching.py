"""Settings of searches: what one may cost, and how many there may be."""

from typing import Annotated

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from streams_node.config.indexing import IndexSettings
from streams_node.config.quantity import Bytes, Count, GiB, MiB, Unit


class SearchSettings(IndexSettings):
    """Part of `Settings`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    search_scan_bytes_max: Bytes = Field(
        default=64 * MiB,
        ge=64 * 1024,
        description="Payload of entries that no index covers, which one search looks through; what is beyond it is "
        "left out, and its `coverage` says so.",
    )
    search_concurrency: Annotated[Count, Unit("searches")] = Field(
        default=4,
        ge=1,
        description="Searches that run at once, and as many of those that look at very many entries, or while others "
        "are busy, too, one less than there are cores; others wait, one stream after another.",
    )
    search_queue_max: Annotated[Count, Unit("searches")] = Field(
        default=256, ge=0, description="Searches that may wait for their turn; beyond it, 429."
    )
    search_views_bytes_max: Bytes = Field(
        default=2 * GiB,
        ge=16 * MiB,
        description="Disk for unpacked companions of streams that are searched, in `cache/views/`; one search may take "
        "more for its moment.",
    )
    search_recent_bytes_max: Bytes = Field(
        default=64 * MiB,
        ge=1 * MiB,
        description="Memory for parsed entries at the ends of streams that are searched; beyond it, they are parsed by "
        "each search.",
    )
    search_rollups_bytes_max: Bytes = Field(
        default=32 * MiB,
        description="Memory for what rollups of streams that are aggregated add up to; beyond it, they are read and "
        "added up by each aggregation. 0: nothing is kept.",
    )
    search_minis_bytes_max: Bytes = Field(
        default=256 * MiB,
        description="Disk for indexes that this node makes of entries of searched streams until the index driver has "
        "covered them, in `cache/views/`; beyond it, such entries are looked through. 0: none are made.",
    )
