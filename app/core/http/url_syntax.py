"""Syntax of the URLs that people enter and this service calls."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

import idna

_REFUSED_CHARACTERS = ' \\<>"^`{|}'
_BRACKETS: Final = re.compile(r"\[[^\[\]]*\](?::[0-9]*)?")
# RFC 1123, section 2.1: labels of letters, digits and hyphens.
_HOST: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?\.?",
    re.IGNORECASE,
)


def find_url_flaw(url: str) -> str | None:
    """Return the reason why a text is not an absolute http or https URL without credentials; None
    if it is.

    Stricter than parsers, which drop line breaks, repair missing slashes and accept any port.
    """
    if not (url.isprintable() and url.isascii()) or any(
        mark in url for mark in _REFUSED_CHARACTERS
    ):
        return "contains a character that is not allowed in a URL"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL: its host or port is not valid"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "is not an http or https URL with a host"
    if not _is_host(parts.hostname, parts.netloc.rpartition("@")[2]):
        return "has a host that is not valid"
    if "@" in parts.netloc:
        return "contains a user or password"
    return None


def _is_host(host: str, authority: str) -> bool:
    try:
        if "[" in authority:
            IPv6Address(host)
            # Python drops what stands around the brackets.
            return _BRACKETS.fullmatch(authority) is not None
        # As URL parsers do: a host whose last label is a number is an IPv4 address.
        if host.removesuffix(".").rpartition(".")[2].isdecimal():
            IPv4Address(host.removesuffix("."))
        # As the HTTP client does, which fails at labels that are not valid.
        if "xn--" in host:
            idna.decode(host)
    except (idna.IDNAError, AddressValueError):
        return False
    return _HOST.fullmatch(host) is not None
