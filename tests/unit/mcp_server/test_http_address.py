"""Where the server listens, and for which hosts it answers."""

import pytest

from mosaico.core.console.terminal import WrongUsage
from mosaico.mcp_server.http_transport import HttpAddress, allowed_hosts, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8765", "127.0.0.1", 8765),
        ("127.0.0.1:8765", "127.0.0.1", 8765),
        ("[::1]:8765", "::1", 8765),
        ("mosaico.example.org:80", "mosaico.example.org", 80),
        ("0.0.0.0:1", "0.0.0.0", 1),
    ],
)
def test_address__is_of_this_machine_unless_another_host_is_named(
    text: str, host: str, port: int
) -> None:
    assert parse_address(text) == HttpAddress(host, port)


@pytest.mark.parametrize("text", ["", ":8765", "host", "host:", "host:x", "host:65536", "²"])
def test_address__anything_else_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage):
        parse_address(text)


def test_hosts__are_the_address_and_the_named_ones() -> None:
    assert "10.0.0.5" in allowed_hosts(HttpAddress("10.0.0.5", 1), [])
    assert "[::1]" in allowed_hosts(HttpAddress("::1", 1), [])
    hosts = allowed_hosts(HttpAddress("0.0.0.0", 1), ["mosaico.example.org"])
    assert "mosaico.example.org" in hosts
    assert "0.0.0.0" not in hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_hosts__all_addresses_need_a_name(host: str) -> None:
    with pytest.raises(WrongUsage):
        allowed_hosts(HttpAddress(host, 1), [])
