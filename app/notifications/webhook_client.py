"""One POST to somebody else's server, and how it ended."""

import re
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

import httpx

from app.core.errors import Invalid
from app.core.http.client import outbound_client
from app.core.http.network_policy import check_url
from app.core.http.retry import parse_retry_after
from app.core.resources import Resources
from app.notifications.registry import UnfitRecipient, host_of
from app.notifications.safe_text import LONGEST_LINK, MORE, one_line
from app.notifications.types import Delivered, Failed, Gone, Outcome

DEADLINE_S = 15.0
MAX_BYTES = 64 * 1024
TOLD_CHARS = 200
SHOWN_END = 4
# What is shorter is no secret, and stands in any text.
SHORTEST_PART = 4


def post(
    res: Resources, url: str, body: bytes, headers: Mapping[str, str], now: datetime
) -> Outcome:
    """Send JSON. Any 2xx is a success, whatever follows; a redirect is none.

    Cost:    at most 15 s and, of a failure, 64 KiB.
    """
    sent = {"Content-Type": "application/json", **headers}
    try:
        with (
            outbound_client(
                timeout_s=DEADLINE_S, max_bytes=MAX_BYTES, policy=res.outbound
            ) as client,
            client.stream("POST", url, content=body, headers=sent) as response,
        ):
            return _outcome(response, url, now)
    except Invalid as error:  # refused before it was dialled
        return Failed(detail=error.detail)
    except httpx.TimeoutException:
        return Failed(detail=f"no answer within {DEADLINE_S:g} s")
    except httpx.HTTPError as error:
        told = _without_address(f"{type(error).__name__}: {error}", url)
        return Failed(detail=one_line(told, TOLD_CHARS))


def check_recipient_url(recipient: str) -> httpx.URL:
    """The URL that a recipient is. Raises `UnfitRecipient`."""
    if MORE in recipient:
        raise UnfitRecipient("is shown cut short here; write all of it")
    plain = recipient.isascii() and recipient.isprintable() and " " not in recipient
    try:
        if not plain or len(recipient) > LONGEST_LINK:
            raise UnfitRecipient("is no URL; write it as https://server.example/path")
        url = httpx.URL(recipient)
        check_url(url)
    except httpx.InvalidURL:
        raise UnfitRecipient("is no URL; write it as https://server.example/path") from None
    return url


def cut_short(recipient: str) -> str:
    """A URL of which whoever knows all of it can write to a chat, as it may be shown."""
    return f"https://{host_of(recipient)}/{MORE}{recipient[-SHOWN_END:]}"


def _outcome(response: httpx.Response, url: str, now: datetime) -> Outcome:
    if response.is_success:
        return Delivered()
    detail = f"answered {response.status_code}"
    said = _words(response, url)
    detail = f"{detail}: {said}" if said else detail
    if response.status_code == HTTPStatus.GONE:
        return Gone(detail=detail)
    if response.is_redirect:
        return Failed(detail=f"answered {response.status_code}: redirects are not followed")
    wait = parse_retry_after(response.headers.get("retry-after"), now)
    return Failed(detail=detail, retry_after_s=wait)


def _words(response: httpx.Response, url: str) -> str:
    """What a failure says of itself, as far as it says so in time, and without the address."""
    try:
        response.read()
    except (Invalid, httpx.HTTPError):
        return ""
    return one_line(_without_address(response.text, url), TOLD_CHARS)


def _without_address(text: str, url: str) -> str:
    """A text in which no part of an address but its server stands, however that is escaped."""
    parts = urlsplit(url)
    asked = [part for pair in parse_qsl(parts.query, keep_blank_values=True) for part in pair]
    known = [url, parts.path, parts.query, *parts.path.split("/"), *parts.query.split("&"), *asked]
    plain = {form for part in known for form in (part, unquote(part), unquote_plus(part))}
    forms = {form for part in plain for form in (part, quote(part, safe=""), quote_plus(part))}
    secret = sorted((each for each in forms if len(each) >= SHORTEST_PART), key=len, reverse=True)
    if not secret:
        return text
    return re.sub("|".join(map(re.escape, secret)), MORE, text, flags=re.IGNORECASE)
