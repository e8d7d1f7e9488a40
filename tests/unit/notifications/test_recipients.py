"""Which recipients a channel takes, and whom a rule tells."""

import pytest

from app.core.errors import Invalid
from app.notifications.registry import CHANNELS, UnfitRecipient, load_channels, targets_of
from app.notifications.types import Target

load_channels(print)

MAIL = "ops@example.org"
SLACK = "https://hooks.slack.com/services/T0/B0/abcdef"
TEAMS = (
    "https://prod-1.westeurope.logic.azure.com:443/workflows/1/triggers/manual/paths/invoke?sig=x"
)
HOOK = "https://build.example/hooks/7"


@pytest.mark.parametrize(
    ("channel", "recipient"),
    [
        ("EMAIL", MAIL),
        ("EMAIL", "first.last+tag@mail.example.org"),
        ("SLACK", SLACK),
        ("TEAMS", TEAMS),
        ("TEAMS", "https://1.environment.api.powerplatform.com/workflows/2?sig=y"),
        ("WEBHOOK", HOOK),
        ("WEBHOOK", "http://127.0.0.1:9000/x"),
    ],
)
def test_a_channel_takes_its_recipients(channel: str, recipient: str) -> None:
    CHANNELS.get(channel).check(recipient)


@pytest.mark.parametrize(
    ("channel", "recipient", "why"),
    [
        ("EMAIL", "ops", "no mail address"),
        ("EMAIL", "Ops <ops@example.org>", "no mail address"),
        ("EMAIL", "ops@example.org\r\nBcc: x@evil.example", "no mail address"),
        ("EMAIL", "ops@example.org, x@evil.example", "no mail address"),
        ("EMAIL", "x" * 250 + "@example.org", "no mail address"),
        ("SLACK", "http://hooks.slack.com/services/x", "no incoming webhook"),
        ("SLACK", "https://hooks.slack.com.evil.example/x", "no incoming webhook"),
        ("SLACK", "https://hooks.slack.com", "no incoming webhook"),
        ("SLACK", MAIL, "http or https"),
        ("TEAMS", "https://x.webhook.office.com/webhookb2/1", "has retired"),
        ("TEAMS", "https://x.logic.azure.com?sig=x", "no webhook of Workflows"),
        ("TEAMS", "https://evil.example/?x=.logic.azure.com", "no webhook of Workflows"),
        ("WEBHOOK", "ftp://build.example/x", "use an http or https URL"),
        ("WEBHOOK", "https://user:word@build.example/x", "holds a user name"),
        ("WEBHOOK", "https://", "names no server"),
        ("WEBHOOK", "https://build.example/a b", "no URL"),
        ("WEBHOOK", "https://[::1", "no URL"),
        ("WEBHOOK", SLACK, "address of the channel SLACK"),
        ("WEBHOOK", TEAMS, "address of the channel TEAMS"),
    ],
)
def test_a_channel_tells_why_it_does_not_take_one(channel: str, recipient: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        CHANNELS.get(channel).check(recipient)


def test_each_recipient_is_told_by_the_channel_that_knows_such_recipients() -> None:
    channels = ["EMAIL", "SLACK", "TEAMS", "WEBHOOK", "IN_APP"]
    assert targets_of(channels, [MAIL, SLACK, HOOK, TEAMS, MAIL]) == [
        Target("EMAIL", MAIL),
        Target("SLACK", SLACK),
        Target("WEBHOOK", HOOK),
        Target("TEAMS", TEAMS),
    ]
    assert targets_of(["IN_APP"], []) == []
    assert targets_of([], []) == []


def test_what_does_not_fit_is_told_for_each_entry() -> None:
    with pytest.raises(UnfitRecipient) as caught:
        targets_of(["EMIAL", "EMAIL", "SLACK"], [MAIL, HOOK])
    told = {error.pointer: error.detail for error in caught.value.errors}
    assert told.keys() == {"/channels/0", "/channels/2", "/recipients/1"}
    assert "Did you mean EMAIL" in told["/channels/0"]
    assert "SLACK has nobody to tell" in told["/channels/2"]
    assert "EMAIL: is no mail address" in told["/recipients/1"]


def test_what_is_as_good_as_a_password_is_not_shown() -> None:
    assert CHANNELS.get("SLACK").shown(SLACK) == "https://hooks.slack.com/…cdef"
    government = SLACK.replace("slack.com", "slack-gov.com")
    assert CHANNELS.get("SLACK").shown(government) == "https://hooks.slack-gov.com/…cdef"
    assert "sig=" not in CHANNELS.get("TEAMS").shown(TEAMS)
    assert CHANNELS.get("WEBHOOK").shown(f"{HOOK}?token=7") == f"{HOOK}?…"
    assert CHANNELS.get("EMAIL").shown(MAIL) == MAIL
