"""Texts of users, made inert: what they call things gives no orders to whoever shows it."""

import re
import unicodedata
from urllib.parse import urljoin, urlsplit

MORE = "…"
LONGEST_LINK = 2048

# Mail programs and chats turn these into links by themselves.
_LINKED = re.compile(r"://|(?<=www)\.", re.IGNORECASE)


def one_line(text: str, limit: int) -> str:
    """A text without line breaks, control characters and marks of direction, cut to `limit`."""
    shown = text if text.isprintable() else "".join(map(_visible, text))
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - len(MORE)].rstrip() + MORE


def unlinked(text: str, limit: int) -> str:
    """A line in which nothing looks like a link to a program that makes links of texts."""
    return _LINKED.sub(lambda found: f"[{found.group()}]", one_line(text, limit))


def followable(link: str | None, public_url: str) -> str | None:
    """The address behind a link: a path of this service, or a page somewhere on the web.

    None for anything else: other schemes, user names, characters that a URL does not have.
    """
    if not link or len(link) > LONGEST_LINK or not (link.isascii() and link.isprintable()):
        return None
    if any(mark in link for mark in " \"<>\\^`{|}'"):
        return None
    try:
        whole = urljoin(public_url, link)
        parts = urlsplit(whole)
        fits = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        )
    except ValueError:
        return None
    return whole if fits else None


def _visible(sign: str) -> str:
    category = unicodedata.category(sign)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category.startswith("C") else sign
