"""Rules between fields: what each of two settings allows alone, and together would be unsafe or make no sense."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streams_node.config.settings import Settings


class Clash(NamedTuple):
    """Fields that do not go together; the first is the one to change."""

    names: tuple[str, ...]
    problem: str


# (lesser, greater, why): what happens if the order is broken.
_AT_MOST = (
    ("read_page_bytes", "read_page_bytes_max", "the default page would be refused"),
    ("append_body_bytes_max", "bodies_in_flight_bytes_max", "the largest body could never be received"),
    ("append_body_bytes_max", "queue_bytes_max", "the largest body could never be queued"),
    ("log_row_bytes_max", "commit_bytes_max", "a row would not fit into a commit"),
    ("append_wait_ms_max", "request_ms_max", "the general time limit would answer first and hide the reason"),
    ("hot_tail_stream_bytes_max", "hot_tail_bytes_max", "one stream could take more than there is"),
    ("live_waiters_max", "connections_max", "every waiter holds a connection"),
    ("sse_heartbeat_ms", "sse_recycle_ms", "no heartbeat would ever be sent"),
    ("flush_bytes", "flush_bytes_max", "a flush could not take what made it begin"),
    ("flush_bytes_max", "backlog_bytes_max", "appends would be refused before a flush is due"),
    ("flush_ms_max", "upload_lag_ms_max", "appends would be refused before a flush is due"),
)


def clashes_of(settings: "Settings") -> Iterator[Clash]:
    yield from _access_clashes(settings)
    yield from _tls_clashes(settings)
    if settings.port and settings.operator_port == settings.port:
        yield Clash(("operator_port", "port"), f"both listeners use port {settings.port}; choose another one")
    if settings.object_store_folder is not None and settings.object_store != "folder":
        yield Clash(
            ("object_store_folder", "object_store"),
            f"has no meaning with object_store={settings.object_store}; leave one of them out",
        )
    for lesser, greater, why in _AT_MOST:
        if getattr(settings, lesser) > getattr(settings, greater):
            yield Clash((lesser, greater), f"must be at most {greater}, or {why}")


def _access_clashes(settings: "Settings") -> Iterator[Clash]:
    if settings.no_auth:
        for name in _open_listeners(settings):
            address = getattr(settings, name)
            problem = f"only allowed on loopback, but {name} is {address}; set api_key, or listen on 127.0.0.1"
            yield Clash(("no_auth", name), problem)
    elif settings.api_key is None:
        yield Clash(
            ("api_key", "no_auth"),
            "no key is set; set STREAMS_API_KEY (16 characters or more), or pass --no-auth on a loopback address",
        )


def _tls_clashes(settings: "Settings") -> Iterator[Clash]:
    if (settings.tls_certfile is None) != (settings.tls_keyfile is None):
        missing, given = ("tls_certfile", "tls_keyfile")[:: 1 if settings.tls_certfile is None else -1]
        yield Clash((missing, given), f"missing, though {given} is set; TLS needs both")
    elif settings.tls_certfile is None and not settings.tls_by_proxy:
        for name in _open_listeners(settings):
            yield Clash(
                (name, "tls_certfile", "tls_keyfile", "tls_by_proxy"),
                f"{getattr(settings, name)} can be reached from other machines without TLS; set tls_certfile and "
                "tls_keyfile, or tls_by_proxy=true if a proxy in front does TLS, or listen on 127.0.0.1",
            )


def _open_listeners(settings: "Settings") -> list[str]:
    used = ["host"] if settings.operator_port is None else ["host", "operator_host"]
    return [name for name in used if not is_loopback(getattr(settings, name))]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name other than `localhost` could resolve to anything."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
