"""TEAMS: a webhook of Workflows, told as an Adaptive Card.

Texts of users stand only in `TextRun`, the one element whose text is not read as Markdown; a
mention would need an entity of its own.
Source: learn.microsoft.com, adaptive-cards (RichTextBlock, TextRun); cards of 28 KB at most.
"""

import json
from bisect import bisect_right
from typing import Any

from app.core.resources import Resources
from app.notifications.message_layout import Line, MessageLayout, Run, layout_of
from app.notifications.registry import CHANNELS, ChannelSpec, Outgoing, UnfitRecipient
from app.notifications.types import Notice, Outcome
from app.notifications.webhook_client import check_recipient_url, cut_short, post

WORKFLOWS = (".logic.azure.com", ".logic.azure.us", ".logic.azure.cn", ".api.powerplatform.com")
RETIRED = (".webhook.office.com", "outlook.office.com")
MAX_BYTES = 28 * 1024
MOST_ITEMS = 40


def check(recipient: str) -> None:
    url = check_recipient_url(recipient)
    if url.host.endswith(RETIRED):
        raise UnfitRecipient(
            "is a connector, which Teams has retired; make a webhook in Workflows and write its URL"
        )
    if url.scheme != "https" or not url.host.endswith(WORKFLOWS) or url.path == "/":
        raise UnfitRecipient(
            "is no webhook of Workflows; write the URL that Workflows shows, at …logic.azure.com"
            " or …api.powerplatform.com"
        )


def render(notice: Notice) -> bytes:
    """As many items as fit into a card."""
    counts = range(1, min(MOST_ITEMS, len(notice.message.items)) + 1)
    most = bisect_right(counts, MAX_BYTES, key=lambda count: len(_with_items(notice, count)))
    body = _with_items(notice, most)
    return body if len(body) <= MAX_BYTES else _card(layout_of(notice, most_items=0, most_lines=2))


def send(res: Resources, outgoing: Outgoing) -> Outcome:
    return post(res, outgoing.recipient, outgoing.body, {}, outgoing.now)


def _with_items(notice: Notice, most: int) -> bytes:
    return _card(layout_of(notice, most_items=most))


def _card(layout: MessageLayout) -> bytes:
    title = {"type": "TextRun", "text": layout.title, "weight": "Bolder", "size": "Large"}
    lines = [line for section in layout.sections for line in _spaced(section)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [{"type": "RichTextBlock", "inlines": [title]}, *lines],
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    document = {"type": "message", "attachments": [attachment]}
    return json.dumps(document, separators=(",", ":")).encode()


def _spaced(section: tuple[Line, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "RichTextBlock",
            "spacing": "None" if place else "Medium",
            "inlines": [_text_run(run) for run in line],
        }
        for place, line in enumerate(section)
    ]


def _text_run(run: Run) -> dict[str, Any]:
    weight = {"weight": "Bolder"} if run.strong else {}
    link = {"selectAction": {"type": "Action.OpenUrl", "url": run.link}} if run.link else {}
    return {"type": "TextRun", "text": run.text, **weight, **link}


CHANNELS.register("TEAMS", ChannelSpec(check=check, render=render, send=send, shown=cut_short))
