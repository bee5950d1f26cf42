"""Settings of memory: how much the node may have, and what is made of that."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from pydantic_settings import SettingsConfigDict

from streams_node.config.quantity import Bytes
from streams_node.config.searching import SearchSettings
from streams_node.config.tuning import AUTO, PRESETS_MB, tuned


def _known(value: str) -> str:
    try:
        tuned(value, 0)
    except ValueError:
        what = f"not `{AUTO}` or a number of MiB from {PRESETS_MB[0]} on"
        raise PydanticCustomError("auto_tune", "{what}", {"what": what}) from None
    return value


class MemorySettings(SearchSettings):
    """Part of `Settings`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    auto_tune: Annotated[str, AfterValidator(_known)] | None = Field(
        default=None,
        description="Caches, pools and what searches may take, made to fit the memory of this machine or container: "
        "`auto`, or a number of MiB from 256 on. The flag may also stand without a value. What is set beside it counts "
        "more; `config show` has the outcome.",
    )
    memory_limit_bytes: Bytes = Field(
        default=0,
        ge=0,
        description="Memory that the process may have. From 80 % of it on, fewer searches run at once and none of them "
        "scans much; from 92 % on, one at a time, and no index driver is beside the node. 0 for no limit.",
    )
