"""Ways to write the address of something inside, and what comes of each: nothing is dialled."""

import re
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from mosaico.core.http.client import outbound_client
from mosaico.core.network_policy import (
    PRIVATE_SERVERS,
    PUBLIC_ONLY,
    IPAddress,
    OutboundPolicy,
    RefusedAddress,
    resolve_name,
)

# What the names of an attacker's own domain answer.
NAMES = {
    "localhost": ["127.0.0.1"],
    "localhost.": ["127.0.0.1"],
    "localhost.localdomain": ["127.0.0.1"],
    "inside.evil.example": ["10.0.0.7"],
    "inside.evil.example.": ["10.0.0.7"],
    "loop.evil.example": ["127.0.0.1"],
    "six.evil.example": ["::1"],
    "mapped.evil.example": ["::ffff:127.0.0.1"],
    "metadata.evil.example": ["169.254.169.254"],
    "metadata.google.internal": ["169.254.169.254"],
    "both.evil.example": ["93.184.216.34", "192.168.1.1"],
    "both-six.evil.example": ["2606:2800::1", "fd00:ec2::254"],
    "langfuse.com.evil.example": ["172.16.0.9"],
    "xn--lngfuse-2ya.evil.example": ["127.0.0.1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "cgnat.evil.example": ["100.64.0.1"],
    "benchmark.evil.example": ["198.18.0.1"],
    "nat64.evil.example": ["64:ff9b::7f00:1"],
    "6to4.evil.example": ["2002:7f00:1::"],
    "teredo.evil.example": ["2001:0:7f00:1::"],
    # No resolver should read these as addresses; should one do it, they are refused all the same.
    "127.0.0.1.": ["127.0.0.1"],
    "::1%25lo": ["::1"],
    "127.0.0.1%00.public.example": ["127.0.0.1"],
    "public.example": ["93.184.216.34"],
    "cloud.langfuse.com": ["93.184.216.34"],
}

NUMBER = re.compile(r"(0x)?[0-9a-f]+(\.(0x)?[0-9a-f]+)*|[0-9a-f:.]+", re.IGNORECASE)

# `inet_aton` of C reads short, octal and hexadecimal forms, IDNA turns circled and wide digits and
# stops into plain ones, and NAT64 and 6to4 addresses hold one of IPv4.
LOOPBACK = [
    "http://127.0.0.1/",
    "http://127.0.0.1:6379/",
    "https://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.127.127.127/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://0x7f.1/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://127.000.000.001/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://127｡0｡0｡1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.0.0.0:8080/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000::0001]:5432/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[::1%25lo]/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://localhost:3000/",
    "http://localhost.localdomain/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
]
# Besides the private networks those of carriers, of benchmarks and of documentation, site-local
# addresses and the newest special ones (3fff::/20, 5f00::/16).
PRIVATE = [
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://167772161/",
    "http://012.1/",
    "http://172.16.0.1/",
    "http://172.31.255.254/",
    "http://192.168.0.1/admin",
    "http://0xc0a80001/",
    "http://192.168.257/",
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://198.51.100.7/",
    "http://203.0.113.7/",
    "http://[fc00::1]/",
    "http://[fd12:3456:789a::1]/",
    "http://[fec0::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::a00:1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
    "http://[2001::1]/",
]
# Also of ECS (169.254.170.2), Azure (168.63.129.16), Alibaba (100.100.100.200), Oracle
# (192.0.0.192), and by IPv6 of AWS (fd00:ec2::254) and Google (fd20:ce::254).
METADATA = [
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://169.16689662/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[fe80::a9fe:a9fe]/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://168.63.129.16/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://[ff02::1]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata.evil.example/",
    "http://both-six.evil.example/",
]
NAMED = [
    f"http://{name}/"
    for name in NAMES
    if "evil" in name and "metadata" not in name and name != "both-six.evil.example"
] + ["http://127.0.0.1.nip.io/"]
TRICKS = [
    "http://public.example@127.0.0.1/",
    "http://public.example:80@10.0.0.1/",
    "http://public.example%40@127.0.0.1/",
    "http://user:password@public.example/",
    "http://127.0.0.1#@public.example/",
    "http://127.0.0.1?@public.example/",
    "http://127.0.0.1\\@public.example/",
    "http://public.example\\@127.0.0.1/",
    "http://127.0.0.1%00.public.example/",
    "http://public.example:22/",
    "http://public.example:3000/",
    "https://public.example:5432/",
    "http://public.example:443/",
    "http://public.example:99999/",
    "http://public.example:-1/",
    "http://[::1/",
    "http://[127.0.0.1]/",
    "http://",
    "http:///etc/passwd",
    "http:127.0.0.1/",
    "//127.0.0.1/",
    "/etc/passwd",
    "",
    "file:///etc/passwd",
    "ftp://public.example/",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "dict://127.0.0.1:11211/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "http://public.example/\r\nHost: inside",
    "http://\t127.0.0.1/",
    "http://" + "a" * 70_000 + "/",
]


class Resolver:
    """Answers for the names above; numbers go the way of the machine, which asks nobody for them."""

    def __init__(self) -> None:
        self.resolved_hosts: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        self.resolved_hosts.append(host)
        if host.lower() in NAMES:
            return [ip_address(address) for address in NAMES[host.lower()]]
        assert NUMBER.fullmatch(host), f"{host} would be asked for on the network"
        return resolve_name(host, port)


def refuse(url: str, policy: OutboundPolicy) -> str:
    with (
        outbound_client(timeout_s=5, max_bytes=1000, policy=policy, resolve=Resolver()) as client,
        pytest.raises(RefusedAddress) as refused,
    ):
        client.get(url)
    return str(refused.value)


def test_hostile_urls__are_more_than_120() -> None:
    assert len({*LOOPBACK, *PRIVATE, *METADATA, *NAMED, *TRICKS}) > 120


def test_network_policy__hostile_urls_are_refused() -> None:
    for url in (*LOOPBACK, *PRIVATE, *METADATA, *NAMED, *TRICKS):
        assert refuse(url, PUBLIC_ONLY), url


def test_network_policy__metadata_is_refused_although_private_networks_are_allowed() -> None:
    for url in METADATA:
        assert refuse(url, PRIVATE_SERVERS), url
