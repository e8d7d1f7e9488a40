"""Safe text: user-chosen names and texts without control characters, line breaks and links."""

import re
import unicodedata
from urllib.parse import urljoin, urlsplit

ELLIPSIS = "…"
MAX_LINK_CHARS = 2048

# Mail programs and chats turn these into links automatically.
_AUTO_LINK = re.compile(r"://|(?<=www)\.", re.IGNORECASE)


def one_line(text: str, limit: int) -> str:
    """The text on one line, without control and direction characters, cut to `limit`."""
    # Direction characters (category Cf) can make a text read differently from what it contains.
    visible = text if text.isprintable() else "".join(map(_visible_char, text))
    line = " ".join(visible.split())
    return line if len(line) <= limit else line[: limit - len(ELLIPSIS)].rstrip() + ELLIPSIS


def without_links(text: str, limit: int) -> str:
    """The text on one line, with brackets that prevent automatic links."""
    return _AUTO_LINK.sub(lambda match: f"[{match.group()}]", one_line(text, limit))


def resolve_link(link: str | None, public_url: str) -> str | None:
    """The absolute URL of a link: a path of this service, or a web page.

    None for all other links: other schemes, user names, characters that are not valid in a URL.
    """
    if not link or len(link) > MAX_LINK_CHARS or not (link.isascii() and link.isprintable()):
        return None
    # Some of these end an attribute or a link in HTML, Markdown or Slack.
    if any(mark in link for mark in " \"<>\\^`{|}'"):
        return None
    try:
        url = urljoin(public_url, link)
        parts = urlsplit(url)
        is_web_page = (
            # `https://bank.example@evil.example/` shows one host and opens another.
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        )
    except ValueError:
        return None
    return url if is_web_page else None


def _visible_char(char: str) -> str:
    category = unicodedata.category(char)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category.startswith("C") else char
