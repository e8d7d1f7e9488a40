"""Which addresses this service calls: decided by number, never by how a name is written.

Public servers, at the ports of the web; the networks that the operator allows, at any port; and
whatever is allowed, never an address at which a cloud hands credentials to its machines.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

SETTING: Final = "MOSAICO_OUTBOUND_ALLOW"
HTTPS_PORT: Final = 443
WEB_PORTS: Final = frozenset({80, HTTPS_PORT})


def networks_of(text: str) -> tuple[IPNetwork, ...]:
    """The networks of a comma-separated list; one address is the network of itself.

    Raises: `ValueError` with what to write instead.
    """
    return tuple(_network(part.strip()) for part in text.split(",") if part.strip())


def _network(text: str) -> IPNetwork:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write networks as 10.0.0.0/8,192.168.1.5") from None


# Where clouds answer their machines (AWS, GCP, Azure, Oracle, Alibaba, and their IPv6 forms), and
# what is no address of any one machine.
_NEVER: Final = networks_of(
    "169.254.0.0/16, 168.63.129.16, 100.100.100.200, 192.0.0.0/24, 0.0.0.0/8, 192.88.99.0/24,"
    " 224.0.0.0/3, ::/128, fe80::/10, fec0::/10, fd00:ec2::/32, fd20:ce::/32, ff00::/8"
)

# The special-purpose registries of IANA (RFC 6890 and its successors), as far as they hold
# anything that `_NEVER` does not. `is_global` of the standard library lets some of them through.
_NOT_PUBLIC: Final = networks_of(
    "10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 172.16.0.0/12, 192.0.2.0/24, 192.31.196.0/24,"
    " 192.52.193.0/24, 192.168.0.0/16, 192.175.48.0/24, 198.18.0.0/15, 198.51.100.0/24,"
    " 203.0.113.0/24, 2001::/23, 2001:db8::/32, 2002::/16, 2620:4f:8000::/48, 3fff::/20"
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")

# This machine and the networks of homes and offices (RFC 1918, RFC 4193).
OWN_NETWORKS: Final = "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundPolicy:
    """What the operator lets this service call: `allowed` networks at any port, and every public
    address at `public_ports`.
    """

    allowed: tuple[IPNetwork, ...] = ()
    public_ports: frozenset[int] = WEB_PORTS

    def fault(self, address: IPAddress, port: int) -> str | None:
        """Why an address is not called and what to do about it; None when it is called."""
        end = _end(address)
        if any(_is_in(form, _NEVER) for form in (address, end, *_packed(address))):
            return (
                "an address inside the machine or cloud that this service runs on, which is never"
                " called; configure the address of another server"
            )
        if _is_in(end, self.allowed):
            return None
        if not is_public(end):
            return (
                "not the address of a public server; if it is a server of yours, have the operator"
                f" add its network to {SETTING}, for example {SETTING}={end}/{end.max_prefixlen}"
            )
        if port not in self.public_ports:
            ports = " and ".join(map(str, sorted(self.public_ports)))
            return (
                f"a public address, of which only port {ports} is called, not {port}; use that, or"
                f" have the operator add the address to {SETTING}"
            )
        return None


PUBLIC_ONLY: Final = OutboundPolicy()
OWN_SERVERS: Final = OutboundPolicy(allowed=networks_of(OWN_NETWORKS))


def is_public(address: IPAddress) -> bool:
    """Whether an address belongs to some machine of the public internet."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return not _is_in(address, (*_NOT_PUBLIC, *_NEVER))


def _end(address: IPAddress) -> IPAddress:
    """The address at which a packet arrives: the IPv4 address in a mapped or translated one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return _last_32_bits(address) if address in _NAT64 else address


def _packed(address: IPAddress) -> list[IPAddress]:
    """Further IPv4 addresses to which older forms may lead: 6to4, Teredo, compatible, local."""
    if isinstance(address, ipaddress.IPv4Address) or address == ipaddress.IPv6Address("::1"):
        return []
    packed: list[IPAddress] = list(address.teredo or ())
    if address.sixtofour is not None:
        packed.append(address.sixtofour)
    if address in _COMPATIBLE or address in _LOCAL_NAT64:
        packed.append(_last_32_bits(address))
    return packed


def _last_32_bits(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_in(address: IPAddress, networks: tuple[IPNetwork, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)
