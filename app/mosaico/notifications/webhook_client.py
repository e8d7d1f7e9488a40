"""Webhook client: one POST to a recipient URL, and its outcome as a value."""

import re
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

import httpx

from mosaico.core.errors import Invalid
from mosaico.core.http.client import outbound_client
from mosaico.core.http.retry import parse_retry_after
from mosaico.core.network_policy import RefusedAddress, check_url, require_callable_host
from mosaico.core.resources import Resources
from mosaico.core.url_syntax import find_url_flaw, is_redacted
from mosaico.notifications.message_layout import ELLIPSIS, MAX_LINK_CHARS, one_line
from mosaico.notifications.registry import InvalidRecipient
from mosaico.notifications.rules import DEADLINE_S, MAX_DETAIL_CHARS
from mosaico.notifications.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliverySucceeded,
    MessageRejected,
    RecipientGone,
)

MAX_BYTES = 64 * 1024
# Shorter parts of an address are not secret, and occur in any text.
MIN_SECRET_CHARS = 4


def post(
    res: Resources, url: str, body: bytes, headers: Mapping[str, str], now: datetime
) -> DeliveryOutcome:
    """Send JSON. Every 2xx status is a success, whatever the body; a redirect is a failure.

    Cost:    at most 15 s; the body is read for failures only, at most 64 KiB.
    """
    all_headers = {"Content-Type": "application/json", **headers}
    try:
        with (
            outbound_client(
                timeout_s=DEADLINE_S, max_bytes=MAX_BYTES, policy=res.outbound
            ) as client,
            # Streamed, so that the body of a success is never read: an endless one must not turn it
            # into a failure.
            client.stream("POST", url, content=body, headers=all_headers) as response,
        ):
            return _outcome(response, url, now)
    except RefusedAddress as error:
        # Refused again in every attempt, until an operator changes the network policy.
        return MessageRejected(detail=error.detail)
    except Invalid as error:
        return DeliveryFailed(detail=error.detail)
    except httpx.TimeoutException:
        return DeliveryFailed(detail=f"no response within {DEADLINE_S:g} s")
    except httpx.HTTPError as error:
        # Errors of httpx may contain the URL.
        text = _redact_address(f"{type(error).__name__}: {error}", url)
        return DeliveryFailed(detail=one_line(text, MAX_DETAIL_CHARS))


def parse_recipient_url(recipient: str) -> httpx.URL:
    """Parse a recipient as a URL; raises `InvalidRecipient`."""
    # A client that sends back what it has read would store the redacted URL.
    if is_redacted(recipient):
        raise InvalidRecipient("is shown redacted; send the full URL")
    # httpx accepts and encodes other characters; then the stored text would differ from the URL
    # that is called, and the same endpoint could exist twice.
    flaw = find_url_flaw(recipient)
    if flaw is not None or len(recipient) > MAX_LINK_CHARS:
        raise InvalidRecipient(f"{flaw or 'is too long'}; write it as https://server.example/path")
    try:
        url = httpx.URL(recipient)
        check_url(url)
        require_callable_host(url.host)
    except httpx.InvalidURL:
        raise InvalidRecipient("is not a URL; write it as https://server.example/path") from None
    return url


def _outcome(response: httpx.Response, url: str, now: datetime) -> DeliveryOutcome:
    if response.is_success:
        return DeliverySucceeded(detail=f"HTTP {response.status_code}")
    # A redirect could lead to an address that was never checked, and would take the message along.
    if response.is_redirect:
        detail = f"HTTP {response.status_code}: redirects are not followed"
        return DeliveryFailed(detail=detail)
    error_text = _error_text(response, url)
    detail = f"HTTP {response.status_code}"
    detail = f"{detail}: {error_text}" if error_text else detail
    # 410 means deliberately removed (Standard Webhooks); 404 can be a deployment in progress.
    if response.status_code == HTTPStatus.GONE:
        return RecipientGone(detail=detail)
    retry_after_s = parse_retry_after(response.headers.get("retry-after"), now)
    return DeliveryFailed(detail=detail, retry_after_s=retry_after_s)


def _error_text(response: httpx.Response, url: str) -> str:
    """The body of a failure, redacted; empty if it is too long or does not arrive in time."""
    try:
        response.read()
    except (Invalid, httpx.HTTPError):
        return ""
    return one_line(_redact_address(response.text, url), MAX_DETAIL_CHARS)


def _redact_address(text: str, url: str) -> str:
    """Remove every part of the URL except its server, in any escaping.

    Servers echo the requested path in error pages, and the path of a chat webhook is a credential.
    """
    # A page can echo the path as sent, decoded, or encoded again; any of these forms is the
    # credential.
    parts = urlsplit(url)
    query_values = [
        part for pair in parse_qsl(parts.query, keep_blank_values=True) for part in pair
    ]
    segments = [*parts.path.split("/"), *parts.query.split("&"), *query_values]
    raw_forms = {
        form
        for part in [url, parts.path, parts.query, *segments]
        for form in (part, unquote(part), unquote_plus(part))
    }
    forms = {form for raw in raw_forms for form in (raw, quote(raw, safe=""), quote_plus(raw))}
    # Longest first: a shorter form may be a part of a longer one.
    secret_forms = sorted(
        (form for form in forms if len(form) >= MIN_SECRET_CHARS), key=len, reverse=True
    )
    if not secret_forms:
        return text
    pattern = "|".join(map(re.escape, secret_forms))
    return re.sub(pattern, ELLIPSIS, text, flags=re.IGNORECASE)
