"""Which client the headers of trusted proxies name."""

import pytest
from starlette.datastructures import Headers

from mosaico.core.network_policy import parse_networks
from mosaico.core.web.client_network import TrustedProxies
from mosaico.core.web.forwarded_headers import (
    ForwardedClient,
    MalformedForwardedHeaders,
    read_client,
)

PROXIES = TrustedProxies(parse_networks("10.0.0.0/8,2001:db8:ffff::/48"))
X_FOR, X_PROTO, X_HOST = "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"


def client_of(*headers: tuple[str, str]) -> ForwardedClient:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return read_client(Headers(raw=raw), PROXIES)


@pytest.mark.parametrize(
    ("address", "is_trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("2001:db8:ffff::1", True),
        ("192.0.2.7", False),
        ("2001:db8::1", False),
        ("testclient", False),
        (None, False),
    ],
)
def test_trusted_proxies__are_those_of_the_networks(address: str | None, is_trusted: bool) -> None:
    assert PROXIES.trusts(address) is is_trusted
    assert not TrustedProxies().trusts(address)


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        # The client has written what is left of its own address.
        ("198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("not an address,, 192.0.2.7", "192.0.2.7"),
        # The last ones are those of trusted proxies.
        ("192.0.2.7, 10.0.0.1, 10.0.0.2", "192.0.2.7"),
        ("192.0.2.7, 2001:db8:ffff::1", "192.0.2.7"),
        # The client is in the network of the proxies.
        ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
    ],
)
def test_x_forwarded_for__rightmost_address_that_is_not_trusted(value: str, address: str) -> None:
    assert client_of((X_FOR, value)) == ForwardedClient(address)


def test_x_forwarded_for__repeated_header_is_one_list() -> None:
    assert client_of((X_FOR, "198.51.100.1"), (X_FOR, "192.0.2.7, 10.0.0.1")).address == "192.0.2.7"


def test_x_forwarded__scheme_and_host() -> None:
    headers = (X_FOR, "192.0.2.7"), (X_PROTO, "HTTPS"), (X_HOST, "mosaico.example:8443")
    assert client_of(*headers) == ForwardedClient("192.0.2.7", "https", "mosaico.example:8443")


def test_forwarded__scheme_and_host_are_those_of_the_element_of_the_client() -> None:
    value = 'for=198.51.100.1;proto=http, For="[2001:db8::7]:4711";proto=https;host=a.example, for=10.0.0.1;proto=http'
    assert client_of(("Forwarded", value)) == ForwardedClient("2001:db8::7", "https", "a.example")


def test_no_headers__tell_nothing() -> None:
    assert client_of(("Host", "localhost"), (X_PROTO, "")) == ForwardedClient()


@pytest.mark.parametrize(
    "headers",
    [
        [(X_FOR, "")],
        [(X_FOR, "unknown")],
        [(X_FOR, "192.0.2.7, ")],
        [(X_FOR, "192.0.2.7, 10.0.0.1, x")],
        [(X_FOR, "192.0.2.7:http")],
        [(X_FOR, "[192.0.2.7")],
        [(X_FOR, "fe80::1%any text")],
        [(X_FOR, "192.0.2.7"), (X_PROTO, "ftp")],
        [(X_FOR, "192.0.2.7"), (X_PROTO, "https"), (X_PROTO, "http")],
        [(X_FOR, "192.0.2.7"), (X_HOST, "a.example, b.example")],
        [(X_FOR, "192.0.2.7"), (X_HOST, "a.example/path")],
        [("Forwarded", "for=unknown")],
        [("Forwarded", "for=_hidden")],
        [("Forwarded", "proto=https")],
        [("Forwarded", "for=192.0.2.7;proto=ftp")],
        # A proxy sets one of them, and passes the other one on.
        [("Forwarded", "for=192.0.2.7"), (X_FOR, "192.0.2.8")],
        [("Forwarded", "for=192.0.2.7"), (X_PROTO, "https")],
    ],
    ids=str,
)
def test_malformed_headers__are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(MalformedForwardedHeaders):
        client_of(*headers)
