"""Settings of the indexes: what is due, and who builds them."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from streams_node.config.quantity import MINUTE_MS, SECOND_MS, Bytes, Count, MiB, Milliseconds, Unit
from streams_node.config.tiers import TierSettings


class IndexSettings(TierSettings):
    """Part of `Settings`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    index_driver: Literal["auto", "off"] = Field(
        default="auto",
        description="`auto` starts an index driver (a JVM) beside the node when there is enough to index; `off` leaves "
        "it to drivers elsewhere. With `object_store=memory` none is started.",
    )
    index_due_bytes: Bytes = Field(
        default=32 * MiB, ge=0, description="The driver is started when so much waits to be indexed."
    )
    index_due_ms: Milliseconds = Field(
        default=15 * MINUTE_MS, ge=0, description="Or when something has been waiting for so long."
    )
    index_stream_bytes: Bytes = Field(
        default=1 * MiB,
        ge=0,
        description="A stream is indexed when it has so much that is sealed and not covered: a scan of less is faster.",
    )
    index_stream_entries: Annotated[Count, Unit("entries")] = Field(
        default=2000, ge=1, description="Or when it has so many such entries."
    )
    index_lease_ms: Milliseconds = Field(
        default=MINUTE_MS,
        ge=1 * SECOND_MS,
        description="An index driver that is not heard of for so long loses its work to the next one.",
    )
    index_merge_bytes_max: Bytes = Field(
        default=256 * MiB, ge=1 * MiB, description="Index objects are merged, sixteen to one, up to this size."
    )
