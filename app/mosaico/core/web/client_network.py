"""Addresses of clients: the network that limits per address count, and the proxies in front of the service."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from mosaico.core.network_policy import IPAddress, IPNetwork


def parse_address(text: str | None) -> IPAddress | None:
    """The address of a client, of an IPv4-mapped one its IPv4 address; None for any other text."""
    try:
        address = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_network(address: str | None) -> str:
    """The network of a client: its IPv4 address, or the IPv6 /64 that one customer usually has."""
    parsed = parse_address(address)
    # A customer usually has a whole /64, so a limit per address would not be a limit.
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((parsed, 64), strict=False))
    return str(parsed or address or "")


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The networks of the proxies that name the client of a request (MOSAICO_TRUSTED_PROXIES)."""

    networks: tuple[IPNetwork, ...] = ()

    def trusts(self, address: str | None) -> bool:
        parsed = parse_address(address) if self.networks else None
        return parsed is not None and any(parsed in network for network in self.networks)


NO_PROXIES: Final = TrustedProxies()
