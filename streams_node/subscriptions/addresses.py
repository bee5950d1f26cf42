"""Which addresses a webhook may have. Pure: the same rules are asked for a URL as it is registered, and again for every
address that its name stands for at the moment of a call.

    https   to addresses of the public internet
    http    to `localhost` and 127.0.0.x only, and only on a node that itself listens on loopback: for trying things out
    both    to networks that the operator has named in `webhook_networks`

Everything else is refused: private, shared, link-local, loopback, multicast and reserved ranges, in IPv4, and in IPv6
with the IPv4 addresses that are wrapped in it.
"""

import ipaddress
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple
from urllib.parse import urlsplit

from streams_node.errors import WebhookRejected

URL_BYTES_MAX = 2048
_PORTS = {"https": 443, "http": 80}
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|\d+)")  # as a last label: old notations of an address, which resolvers understand
_DEV_HOST = "localhost"
_DEV_NETWORK = IPv4Network("127.0.0.0/24")
# Ranges of IPv6 that carry an IPv4 address, and how many bits stand behind it.
_WRAPPED = ((IPv6Network("::/96"), 0), (IPv6Network("64:ff9b::/96"), 0), (IPv6Network("2002::/16"), 80))
_NEVER = tuple(IPv6Network(text) for text in ("64:ff9b:1::/48", "2001::/32", "fec0::/10", "fc00::/7", "fe80::/10"))
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Target(NamedTuple):
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str


class Policy(NamedTuple):
    """What the operator allows beyond the public internet."""

    loopback: bool = False
    networks: tuple[Network, ...] = ()


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks, separated by commas. Raises ValueError."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def target_of(url: str, policy: Policy) -> Target:
    """A URL that may be called, as far as it can be seen from the URL alone."""
    target = _parsed(url)
    literal = _literal(target.host)
    if literal is not None:
        check_address(literal, target, policy)
    elif target.scheme == "http" and not policy.networks and not (policy.loopback and target.host == _DEV_HOST):
        raise WebhookRejected("webhook.url must be https")
    elif target.scheme == "https" and target.host == _DEV_HOST and not policy.networks:
        raise WebhookRejected("webhook.url names this machine")
    return target


def check_addresses(addresses: Iterable[Address], target: Target, policy: Policy) -> list[Address]:
    """All addresses of a name, if each may be called: one that may not is a sign that the name is not to be trusted."""
    found = list(addresses)
    for address in found:
        check_address(address, target, policy)
    return found


def check_address(address: Address, target: Target, policy: Policy) -> None:
    """Refuse an address that the node does not call."""
    inner = unwrapped(address)
    if any(each in network for network in policy.networks for each in (address, inner) if _alike(each, network)):
        return
    if target.scheme == "http":
        dev = target.host == _DEV_HOST or _in_dev(_literal(target.host))
        if policy.loopback and dev and inner.is_loopback:
            return
        raise WebhookRejected("webhook.url must be https")
    if not _public(inner) or not _public(address):
        raise WebhookRejected(f"webhook.url stands for {address}, which is not an address of the public internet")


def unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, where there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if int(address) <= 1:  # `::` and `::1`
        return address
    for network, behind in _WRAPPED:
        if address in network:
            return IPv4Address(int(address) >> behind & 0xFFFFFFFF)
    return address


def _public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return True  # the other one is looked at
        if any(address in network for network in _NEVER) or address.scope_id is not None:
            return False
        if any(address in network for network, _ in _WRAPPED) and int(address) > 1:
            return True
    return address.is_global and not address.is_multicast and not address.is_reserved


def _alike(address: Address, network: Network) -> bool:
    return address.version == network.version


def _in_dev(address: Address | None) -> bool:
    return isinstance(address, IPv4Address) and address in _DEV_NETWORK


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parsed(url: str) -> Target:
    if len(url) > URL_BYTES_MAX or not _VISIBLE.fullmatch(url) or "\\" in url:
        raise WebhookRejected(f"webhook.url must be visible ASCII of at most {URL_BYTES_MAX} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WebhookRejected("webhook.url is no URL") from None
    if parts.scheme not in _PORTS:
        raise WebhookRejected("webhook.url must be https")
    host = (parts.hostname or "").removesuffix(".")
    if parts.username is not None or parts.password is not None or parts.fragment or port == 0:
        raise WebhookRejected("webhook.url must have no user, no fragment and no port 0")
    if "[" in parts.netloc:
        if not isinstance(_literal(host), IPv6Address):
            raise WebhookRejected("webhook.url has no usable host")
    elif not _HOST.fullmatch(host) or (_literal(host) is None and _NUMBER.fullmatch(host.rpartition(".")[2])):
        raise WebhookRejected("webhook.url has no usable host")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path, parts.netloc)
