"""The network of a client, which limits per address count."""

import pytest

from mosaico.core.web.client_network import client_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        (None, ""),
        ("testclient", "testclient"),
    ],
)
def test_client_network__ipv6_address_gives_its_64_network(
    address: str | None, network: str
) -> None:
    assert client_network(address) == network
