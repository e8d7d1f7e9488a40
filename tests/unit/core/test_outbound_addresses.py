"""The network policy: which addresses an outbound call may use."""

from ipaddress import ip_address

import httpx
import pytest

from mosaico.core.network_policy import (
    PRIVATE_SERVERS,
    PUBLIC_ONLY,
    OutboundPolicy,
    RefusedAddress,
    check_url,
    is_public,
    parse_networks,
    resolve_allowed_addresses,
)

EVERYTHING = OutboundPolicy(allowed=parse_networks("0.0.0.0/0,::/0"))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "::169.254.169.254",
    ],
)
def test_network_policy__metadata_addresses_are_always_refused(address: str) -> None:
    assert "never called" in str(EVERYTHING.refusal_reason(ip_address(address), 80))


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.7",
        "100.64.0.1",
        "127.0.0.1",
        "172.31.255.255",
        "192.0.2.1",
        # 192.31.196.0/24, 192.175.48.0/24 and 2620:4f:8000::/48 are AS112, 192.52.193.0/24 is AMT;
        # 4000:: belongs to nobody yet.
        "192.31.196.1",
        "192.52.193.1",
        "192.168.1.5",
        "192.175.48.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "::1",
        "100::1",
        "2001:5::1",
        "2001:2::1",
        "2001:db8::1",
        "2002:5db8:d822::1",
        "2620:4f:8000::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "64:ff9b:1::5db8:d822",
        "fc00::1",
        "fdff::1",
        "::ffff:10.0.0.7",
        "64:ff9b::a00:7",
        "::10.0.0.7",
    ],
)
def test_network_policy__non_public_address_needs_to_be_allowed(address: str) -> None:
    assert "MOSAICO_OUTBOUND_ALLOW" in str(PUBLIC_ONLY.refusal_reason(ip_address(address), 443))
    assert EVERYTHING.refusal_reason(ip_address(address), 443) is None


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "2606:2800::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "172.32.0.1"],
)
def test_network_policy__public_address_allows_web_ports_only(address: str) -> None:
    for port in (80, 443):
        assert PUBLIC_ONLY.refusal_reason(ip_address(address), port) is None
    for port in (22, 25, 3000, 5432, 6379):
        assert "80 and 443" in str(PUBLIC_ONLY.refusal_reason(ip_address(address), port))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.5", "fd12::1"])
def test_network_policy__allowed_network_allows_any_port(address: str) -> None:
    assert PRIVATE_SERVERS.refusal_reason(ip_address(address), 3000) is None
    assert not is_public(ip_address(address))


def test_network_policy__allows_only_the_listed_network() -> None:
    policy = OutboundPolicy(allowed=parse_networks("10.1.0.0/16, 192.168.1.5,fd12::/16"))
    for address in ("10.1.255.255", "192.168.1.5", "fd12::9", "::ffff:10.1.0.1"):
        assert policy.refusal_reason(ip_address(address), 3000) is None
    for address in ("10.2.0.0", "192.168.1.6", "fd13::9", "127.0.0.1"):
        assert policy.refusal_reason(ip_address(address), 3000) is not None


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "home", "*", "1", "10.0.0.0-9"])
def test_parse_networks__invalid_list_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"write networks as 10\.0\.0\.0/8,192\.168\.1\.5"):
        parse_networks(f"192.168.0.0/16,{text}")


@pytest.mark.parametrize(
    "host", ["0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518"]
)
def test_network_policy__other_spellings_of_an_address_are_refused(host: str) -> None:
    # 169.254.169.254 is a9fe a9fe in hexadecimal, 2852039166 as one number.
    with pytest.raises(RefusedAddress, match=r"169\.254\.169\.254"):
        resolve_allowed_addresses(host, 80, EVERYTHING)


def test_network_policy__name_with_one_refused_address_is_refused() -> None:
    both = [ip_address("93.184.216.34"), ip_address("10.0.0.7")]
    with pytest.raises(RefusedAddress, match=r"two\.example is at 10\.0\.0\.7.*=10\.0\.0\.7/32"):
        resolve_allowed_addresses("two.example", 443, PUBLIC_ONLY, lambda *_: both)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://user:pw@example.org/",
        "http://",
        "http://example.org:443/",
    ],
)
def test_network_policy__invalid_url_is_refused(url: str) -> None:
    with pytest.raises(RefusedAddress):
        check_url(httpx.URL(url))


def test_network_policy__plain_url_is_accepted() -> None:
    check_url(httpx.URL("https://cloud.langfuse.com/api/public/traces?page=1"))
