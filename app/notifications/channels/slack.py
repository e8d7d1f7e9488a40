"""SLACK: an incoming webhook, told in Block Kit.

Texts of users stand only where Slack reads no markup: in `plain_text` and in the texts of
`rich_text`, in which mentions and links are elements of their own.
Source: docs.slack.dev, reference/block-kit (blocks, rich_text), messaging/formatting-message-text.
"""

import json
from typing import Any

from app.core.resources import Resources
from app.notifications.message_layout import Line, MessageLayout, Run, layout_of
from app.notifications.registry import CHANNELS, ChannelSpec, Outgoing, UnfitRecipient
from app.notifications.types import Notice, Outcome
from app.notifications.webhook_client import check_recipient_url, cut_short, post

HOSTS = ("hooks.slack.com", "hooks.slack-gov.com")
LONGEST_HEADER = 150
MOST_ITEMS = 40  # a message has at most 50 blocks


def check(recipient: str) -> None:
    url = check_recipient_url(recipient)
    if url.scheme != "https" or url.host not in HOSTS or url.path == "/":
        raise UnfitRecipient(
            "is no incoming webhook of Slack; write it as https://hooks.slack.com/services/…"
        )


def render(notice: Notice) -> bytes:
    layout = layout_of(notice, most_items=MOST_ITEMS)
    header = {"type": "plain_text", "text": layout.title[:LONGEST_HEADER], "emoji": False}
    document = {
        "text": escaped(layout.title),
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [{"type": "header", "text": header}, *_blocks(layout)],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def escaped(text: str) -> str:
    """A text for the one place that Slack reads as its markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def send(res: Resources, outgoing: Outgoing) -> Outcome:
    return post(res, outgoing.recipient, outgoing.body, {}, outgoing.now)


def _blocks(layout: MessageLayout) -> list[dict[str, Any]]:
    sections = [section for section in layout.sections if section]
    return [{"type": "rich_text", "elements": [_lines(section)]} for section in sections]


def _lines(lines: tuple[Line, ...]) -> dict[str, Any]:
    elements: list[dict[str, Any]] = []
    for line in lines:
        elements += [_element(run) for run in line]
        elements.append({"type": "text", "text": "\n"})
    return {"type": "rich_text_section", "elements": elements[:-1]}


def _element(run: Run) -> dict[str, Any]:
    style = {"style": {"bold": True}} if run.strong else {}
    if run.link is not None:
        return {"type": "link", "url": run.link, "text": run.text, **style}
    return {"type": "text", "text": run.text, **style}


CHANNELS.register("SLACK", ChannelSpec(check=check, render=render, send=send, shown=cut_short))
