from ipaddress import ip_address

import httpx
import pytest

from app.core.http import RefusedAddress, check_url, checked_addresses, is_refused


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
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "::169.254.169.254",
    ],
)
def test_where_clouds_keep_their_credentials_is_never_called(address: str) -> None:
    assert is_refused(ip_address(address))


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.5", "93.184.216.34", "2606:2800::1"]
)
def test_servers_of_the_operator_and_of_the_world_are_called(address: str) -> None:
    assert not is_refused(ip_address(address))


@pytest.mark.parametrize(
    "host", ["0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518"]
)
def test_other_spellings_of_the_address_lead_to_the_same_refusal(host: str) -> None:
    # 169.254.169.254 is a9fe a9fe in hexadecimal, 2852039166 as one number.
    with pytest.raises(RefusedAddress, match=r"169\.254\.169\.254"):
        checked_addresses(host, 80)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "http://user:pw@example.org/", "http://"]
)
def test_other_schemes_and_user_names_are_refused(url: str) -> None:
    with pytest.raises(RefusedAddress):
        check_url(httpx.URL(url))


def test_a_plain_url_passes() -> None:
    check_url(httpx.URL("https://cloud.langfuse.com/api/public/traces?page=1"))
