"""Network policy (SSRF guard): which URLs and addresses this service calls, for every client.

The decision is made on resolved addresses, never on the spelling of a host name. Allowed are public
servers at the web ports and the networks of MOSAICO_OUTBOUND_ALLOW at any port. Never allowed are
the addresses at which clouds hand out credentials to their machines.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Final, Protocol

from mosaico.core.errors import Invalid

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Sequence[IPAddress]]

ALLOW_SETTING: Final = "MOSAICO_OUTBOUND_ALLOW"
HTTPS_PORT: Final = 443
WEB_PORTS: Final = frozenset({80, HTTPS_PORT})


class RefusedAddress(Invalid):
    """This service does not call that address; use a public server, or ask the operator to allow
    the address.
    """


class UnresolvedName(OSError):
    """The host name has no address."""


class RequestUrl(Protocol):
    """The URL of a request, as any HTTP client represents it."""

    @property
    def scheme(self) -> str: ...
    @property
    def userinfo(self) -> bytes: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int | None: ...


def parse_networks(text: str) -> tuple[IPNetwork, ...]:
    """The networks of a comma-separated list; a single address is a network of one address.

    Raises: `ValueError` with the expected form.
    """
    return tuple(_parse_network(part.strip()) for part in text.split(",") if part.strip())


def _parse_network(text: str) -> IPNetwork:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write networks as 10.0.0.0/8,192.168.1.5") from None


# Metadata services of AWS, GCP, Azure, Oracle and Alibaba ...
_METADATA: Final = parse_networks("169.254.0.0/16, 168.63.129.16, 100.100.100.200, 192.0.0.192")
# ... with their IPv6 forms, and addresses that do not belong to a single machine.
_NEVER: Final = _METADATA + parse_networks(
    "192.0.0.0/24, 0.0.0.0/8, 192.88.99.0/24, 224.0.0.0/3, ::/128, fe80::/10, fec0::/10, fd00:ec2::/32,"
    " fd20:ce::/32, ff00::/8"
)

# The names of metadata services that only the resolvers inside of a cloud know. Not `metadata`, which may be
# a service of a Compose file; its address is tested at each call, like every other.
_METADATA_NAMES: Final = frozenset(
    {
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "rancher-metadata",
    }
)

_NEVER_REASON: Final = (
    "an address inside the machine or cloud that this service runs on, which is never called;"
    " configure the address of another server"
)

# The special-purpose registries of IANA (RFC 6890 and successors) without the networks of `_NEVER`.
# `is_global` of the standard library accepts some of them, so it is not used.
_NOT_PUBLIC: Final = parse_networks(
    "10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 172.16.0.0/12, 192.0.2.0/24, 192.31.196.0/24,"
    " 192.52.193.0/24, 192.168.0.0/16, 192.175.48.0/24, 198.18.0.0/15, 198.51.100.0/24,"
    " 203.0.113.0/24, 2001::/23, 2001:db8::/32, 2002::/16, 2620:4f:8000::/48, 3fff::/20"
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")

# Loopback and the private networks (RFC 1918, RFC 4193).
PRIVATE_NETWORKS: Final = "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundPolicy:
    """The addresses that this service may call: `allowed` networks at any port, and every public address at
    `public_ports`.
    """

    allowed: tuple[IPNetwork, ...] = ()
    public_ports: frozenset[int] = WEB_PORTS

    def refusal_reason(self, address: IPAddress, port: int) -> str | None:
        """Return the reason why an address is refused, and the remedy; None when it may be
        called.
        """
        destination = _destination(address)
        if any(_is_in(form, _NEVER) for form in _forms(address)):
            return _NEVER_REASON
        # After `_NEVER`: an operator who allows a whole private network does not mean its metadata
        # service.
        if _is_in(destination, self.allowed):
            return None
        if not is_public(destination):
            return (
                "not the address of a public server; if it is your own server, ask the operator "
                f"to add its network to {ALLOW_SETTING}, for example "
                f"{ALLOW_SETTING}={destination}/{destination.max_prefixlen}"
            )
        if port not in self.public_ports:
            ports = " and ".join(map(str, sorted(self.public_ports)))
            return (
                f"a public address, where only port {ports} is allowed, not {port}; use that "
                f"port, or ask the operator to add the address to {ALLOW_SETTING}"
            )
        return None


PUBLIC_ONLY: Final = OutboundPolicy()
# On the command line and in Python the user chooses the servers, so every address is allowed.
ALLOW_ALL_ADDRESSES: Final = OutboundPolicy(allowed=parse_networks("0.0.0.0/0,::/0"))
PRIVATE_SERVERS: Final = OutboundPolicy(allowed=parse_networks(PRIVATE_NETWORKS))


def check_url(url: RequestUrl) -> None:
    """Raise `RefusedAddress` for a URL that no client of this service may call."""
    if url.scheme not in ("http", "https"):
        raise RefusedAddress(
            f"{url.scheme[:20]!r} is not an allowed scheme; use an http or https URL."
        )
    if url.userinfo:
        raise RefusedAddress("The URL contains a user name or password; give them separately.")
    if not url.host:
        raise RefusedAddress("The URL has no host name; write it as https://server.example.")
    # The policy decides by port: plain text to port 443 would pass as an encrypted request.
    if url.scheme == "http" and url.port == HTTPS_PORT:
        raise RefusedAddress(f"Port {HTTPS_PORT} requires encryption; use https.")


def find_host_refusal(host: str) -> str | None:
    """Return the reason why a host is never called, whatever the operator allows; None for others.

    Knows addresses in any spelling, and names of metadata services. All other names are decided by their
    addresses at each call.
    """
    name = host.strip("[]").partition("%")[0].rstrip(".").lower()
    address = _parse_address(name)
    if address is None:
        is_never = name in _METADATA_NAMES
    else:
        is_never = any(_is_in(form, _NEVER) for form in _forms(address))
    return f"{host} is {_NEVER_REASON}" if is_never else None


def _parse_address(name: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        pass
    try:
        # The resolver reads `2852039166` and `0xa9fea9fe` as addresses, too.
        return ipaddress.ip_address(socket.inet_aton(name))
    except (OSError, UnicodeError):
        return None


def require_callable_host(host: str) -> None:
    """Raise `RefusedAddress` for a host that is never called; see `find_host_refusal`."""
    refusal = find_host_refusal(host)
    if refusal is not None:
        raise RefusedAddress(f"{refusal}.")


def resolve_name(host: str, port: int) -> Sequence[IPAddress]:
    """All addresses of a host name, from the resolver of the machine. Raises `UnresolvedName`."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnresolvedName(f"the name {host!r} cannot be resolved: {error}") from error
    # Without the zone of a link-local address (`fe80::1%eth0`): the networks of the policy have
    # none.
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]


def resolve_allowed_addresses(
    host: str, port: int, policy: OutboundPolicy, resolve: Resolver = resolve_name
) -> Sequence[IPAddress]:
    """The addresses of a host name; raises `RefusedAddress` when any of them may not be called.

    The client must connect to one of the returned addresses: a second look-up of the name could
    give another answer (DNS rebinding).
    """
    addresses = resolve(host, port)
    # All of them, not only the first: the client may use any.
    for address in addresses:
        reason = policy.refusal_reason(address, port)
        if reason is not None:
            raise RefusedAddress(f"{host} is at {address}: {reason}.")
    return addresses


def resolve_in_background(
    host: str, port: int, policy: OutboundPolicy, resolve: Resolver
) -> Future[Sequence[IPAddress]]:
    """`resolve_allowed_addresses` in a thread of its own.

    `getaddrinfo` takes no deadline. In a daemon thread, neither the request nor the end of the
    process waits for a resolver that does not answer.
    """
    addresses = Future[Sequence[IPAddress]]()
    addresses.set_running_or_notify_cancel()

    def resolve_host() -> None:
        try:
            addresses.set_result(resolve_allowed_addresses(host, port, policy, resolve))
        except Exception as error:  # noqa: BLE001 - raised where the future is awaited
            addresses.set_exception(error)

    Thread(target=resolve_host, name="resolver", daemon=True).start()
    return addresses


def is_public(address: IPAddress) -> bool:
    """Return whether an address belongs to a single machine of the public internet."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return not _is_in(address, (*_NOT_PUBLIC, *_NEVER))


def _destination(address: IPAddress) -> IPAddress:
    """The address at which a packet arrives: the IPv4 address in a mapped or translated one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return _last_32_bits(address) if address in _NAT64 else address


def _forms(address: IPAddress) -> tuple[IPAddress, ...]:
    """The address, its destination, and the IPv4 addresses that a gateway on the way would call."""
    return (address, _destination(address), *_embedded_ipv4(address))


def _embedded_ipv4(address: IPAddress) -> list[IPAddress]:
    """IPv4 addresses in older IPv6 forms: 6to4, Teredo, IPv4-compatible, local NAT64."""
    if isinstance(address, ipaddress.IPv4Address) or address == ipaddress.IPv6Address("::1"):
        return []
    embedded: list[IPAddress] = list(address.teredo or ())
    if address.sixtofour is not None:
        embedded.append(address.sixtofour)
    if address in _COMPATIBLE or address in _LOCAL_NAT64:
        embedded.append(_last_32_bits(address))
    return embedded


def _last_32_bits(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_in(address: IPAddress, networks: tuple[IPNetwork, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)
