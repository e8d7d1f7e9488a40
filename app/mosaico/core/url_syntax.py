"""Syntax of the URLs that people enter and this service calls."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

import idna

VISIBLE_SUFFIX_CHARS: Final = 4
# Four characters of a shorter path would be most of it.
MIN_REDACTED_CHARS: Final = 12
# No URL contains it: `find_url_flaw` refuses what is not ASCII.
_HIDDEN_PART: Final = "\u2026"

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


def redact_url(url: str) -> str:
    """The redacted form of a webhook URL, whose path or query may be a credential: scheme, server and
    the last four characters; none of a short path.
    """
    scheme, _, address = url.partition("://")
    # A query or a fragment can follow the server without a slash.
    server, *hidden = re.split("[/?#]", address, maxsplit=1)
    if not any(hidden):
        return url
    [secret] = hidden
    suffix = secret[-VISIBLE_SUFFIX_CHARS:] if len(secret) >= MIN_REDACTED_CHARS else ""
    return f"{scheme}://{server.lower()}/{_HIDDEN_PART}{suffix}"


def is_redacted(url: str) -> bool:
    """Return whether a text is, or contains, a URL of `redact_url`."""
    return _HIDDEN_PART in url
