"""The network of a client, which limits per address count."""

import ipaddress


def client_network(address: str | None) -> str:
    """The network of a client: its IPv4 address, or the IPv6 /64 that one customer usually has."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    # A customer usually has a whole /64, so a limit per address would not be a limit.
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
