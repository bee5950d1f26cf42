"""Settings of subscriptions: how many, how webhooks are called, and where to."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from streams_node.config.quantity import SECOND_MS, Count, Milliseconds, Unit


def _networks(value: str) -> str:
    try:
        for part in value.split(","):
            if part.strip():
                ip_network(part.strip())
    except ValueError:
        raise PydanticCustomError("networks", "not networks like 10.1.0.0/16,fd00::/8") from None
    return value


class SubscriptionSettings(BaseSettings):
    """Part of `Settings`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # --- subscriptions ---

    subscriptions_max: Annotated[Count, Unit("subscriptions")] = Field(
        default=1000,
        ge=0,
        le=100_000,
        description="Subscriptions a node keeps; each holds some memory, and up to a thousand names of streams.",
    )
    subscription_streams_max: Annotated[Count, Unit("streams")] = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Streams that one subscription names; a pattern matches any number.",
    )
    webhook_ms_max: Milliseconds = Field(
        default=15 * SECOND_MS,
        ge=100,
        description="Longest a call of a webhook takes, from the name's resolution to the answer; or a shorter lease.",
    )
    webhooks_parallel_max: Annotated[Count, Unit("calls")] = Field(
        default=64,
        ge=1,
        description="Webhooks called at once; one receiver, and all that failed before together, get a quarter.",
    )
    webhooks_per_second_max: Annotated[Count, Unit("calls")] = Field(
        default=200,
        ge=1,
        description="Webhooks called in a second, so that appends keep the processor; others wait, and tell of more "
        "streams at once.",
    )
    webhook_loopback: bool | None = Field(
        default=None,
        description="Allow `http://localhost` and `http://127.0.0.x` as webhooks; absent: only on a node without a key "
        "and without `public_url`, which is one to try things out on.",
    )
    webhook_networks: Annotated[str, AfterValidator(_networks)] = Field(
        default="",
        description="Networks beyond the public internet that webhooks may be in, as `10.1.0.0/16`; by http, too.",
    )
    webhook_key_ms_max: Milliseconds = Field(
        default=0,
        ge=0,
        description="Age at which the key that signs webhooks is replaced; 0 for never. The old one is published for "
        "another day.",
    )
