"""Validation of recipients, and the delivery targets of a rule."""

import pytest

from mosaico.core.errors import Invalid
from mosaico.core.network_policy import RefusedAddress
from mosaico.notifications.registry import (
    CHANNELS,
    InvalidRecipient,
    allow_chat_hosts,
    load_channels,
    resolve_targets,
)
from mosaico.notifications.types import DeliveryTarget

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
def test_channel_check__valid_recipients_are_accepted(channel: str, recipient: str) -> None:
    CHANNELS.get(channel).check(recipient)


@pytest.mark.parametrize(
    ("channel", "recipient", "why"),
    [
        ("EMAIL", "ops", "not an email address"),
        ("EMAIL", "Ops <ops@example.org>", "not an email address"),
        ("EMAIL", "ops@example.org\r\nBcc: x@evil.example", "not an email address"),
        ("EMAIL", "ops@example.org, x@evil.example", "not an email address"),
        ("EMAIL", "x" * 250 + "@example.org", "not an email address"),
        ("SLACK", "http://hooks.slack.com/services/x", "not a Slack incoming webhook"),
        ("SLACK", "https://hooks.slack.com.evil.example/x", "not a Slack incoming webhook"),
        ("SLACK", "https://hooks.slack.com", "not a Slack incoming webhook"),
        ("SLACK", MAIL, "not an http or https URL"),
        ("TEAMS", "https://x.webhook.office.com/webhookb2/1", "no longer supports"),
        ("TEAMS", "https://x.logic.azure.com?sig=x", "not a Workflows webhook"),
        ("TEAMS", "https://evil.example/?x=.logic.azure.com", "not a Workflows webhook"),
        ("WEBHOOK", "ftp://build.example/x", "is not an http or https URL"),
        ("WEBHOOK", "https://user:word@build.example/x", "contains a user or password"),
        ("WEBHOOK", "https://", "is not an http or https URL with a host"),
        ("WEBHOOK", "https://build.example/a b", "not allowed in a URL"),
        ("WEBHOOK", "https://build.example:99999/x", "host or port is not valid"),
        ("WEBHOOK", "https://build.example:0/x", "is not an http or https URL"),
        ("WEBHOOK", "https://[::1", "not a URL"),
        ("WEBHOOK", SLACK, "URL of the channel SLACK"),
        ("WEBHOOK", TEAMS, "URL of the channel TEAMS"),
        ("WEBHOOK", "https://x.logic.azure.us/workflows/1", "URL of the channel TEAMS"),
    ],
)
def test_channel_check__invalid_recipient_has_reason(
    channel: str, recipient: str, why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        CHANNELS.get(channel).check(recipient)


def test_resolve_targets__recipient_gets_channels_that_accept_it() -> None:
    channels = ["EMAIL", "SLACK", "TEAMS", "WEBHOOK", "IN_APP"]
    assert resolve_targets(channels, [MAIL, SLACK, HOOK, TEAMS, MAIL]) == [
        DeliveryTarget("EMAIL", MAIL),
        DeliveryTarget("SLACK", SLACK),
        DeliveryTarget("WEBHOOK", HOOK),
        DeliveryTarget("TEAMS", TEAMS),
    ]
    assert resolve_targets(["IN_APP"], []) == []
    assert resolve_targets([], []) == []


def test_resolve_targets__each_mismatch_is_reported() -> None:
    with pytest.raises(InvalidRecipient) as caught:
        resolve_targets(["EMIAL", "EMAIL", "SLACK"], [MAIL, HOOK])
    details = {error.pointer: error.detail for error in caught.value.errors}
    assert details.keys() == {"/channels/0", "/channels/2", "/recipients/1"}
    assert "Did you mean EMAIL" in details["/channels/0"]
    assert "SLACK has no recipient" in details["/channels/2"]
    assert "EMAIL: is not an email address" in details["/recipients/1"]


def test_channel_redact__credentials_are_hidden() -> None:
    assert CHANNELS.get("SLACK").redact(SLACK) == "https://hooks.slack.com/…cdef"
    government = SLACK.replace("slack.com", "slack-gov.com")
    assert CHANNELS.get("SLACK").redact(government) == "https://hooks.slack-gov.com/…cdef"
    assert "sig=" not in CHANNELS.get("TEAMS").redact(TEAMS)
    redact = CHANNELS.get("WEBHOOK").redact
    assert redact("https://hooks.zapier.example/hooks/catch/1/abcdef") == (
        "https://hooks.zapier.example/…cdef"
    )
    assert redact("http://n8n.example:5678/webhook?token=abcdef") == "http://n8n.example:5678/…cdef"
    assert redact("https://relay.example?key=0123456789abcdef") == "https://relay.example/…cdef"
    assert redact("https://relay.example#0123456789abcdef") == "https://relay.example/…cdef"
    assert redact("https://relay.example") == "https://relay.example"
    # Four characters of a short path would be most of it.
    assert redact(HOOK) == "https://build.example/…"
    assert CHANNELS.get("EMAIL").redact(MAIL) == MAIL


def test_check__chat_formats_of_own_servers_are_allowed_by_the_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mattermost = "http://Chat.example:8065/hooks/abcdef"
    for channel in ("SLACK", "TEAMS"):
        with pytest.raises(InvalidRecipient, match="MOSAICO_CHAT_HOSTS"):
            CHANNELS.get(channel).check(mattermost)
    monkeypatch.setattr("mosaico.notifications.registry._own_hosts", set())
    allow_chat_hosts("relay.example, chat.example")
    for channel in ("SLACK", "TEAMS"):
        CHANNELS.get(channel).check(mattermost)
        with pytest.raises(InvalidRecipient):
            CHANNELS.get(channel).check("https://evil-chat.example/hooks/abcdef")
        assert resolve_targets([channel], [mattermost]) == [DeliveryTarget(channel, mattermost)]
    # Whose format the server reads, only the operator knows; both would be one message too many.
    with pytest.raises(InvalidRecipient) as caught:
        resolve_targets(["SLACK", "TEAMS"], [mattermost])
    assert {error.pointer for error in caught.value.errors} == {"/recipients/0"}
    assert "SLACK and TEAMS" in caught.value.errors[0].detail


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254", "169.254.1.1", "[fe80::1]", "100.100.100.200",
        "0xa9fea9fe", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "0.0.0.0",
        "metadata.google.internal", "Metadata.Google.Internal.", "metadata.goog",
        "instance-data.ec2.internal",
    ],
)  # fmt: skip
def test_check__metadata_and_link_local_hosts_are_refused_when_saved(host: str) -> None:
    with pytest.raises(RefusedAddress, match="never called"):
        CHANNELS.get("WEBHOOK").check(f"http://{host}/latest/meta-data")


def test_check__a_number_is_not_a_host() -> None:
    """169.254.169.254 as one number, which some resolvers read as this address."""
    with pytest.raises(InvalidRecipient, match="host that is not valid"):
        CHANNELS.get("WEBHOOK").check("http://2852039166/latest/meta-data")


@pytest.mark.parametrize(
    "host",
    [
        # Names that resemble those above, and may belong to anybody: only their addresses can tell.
        "metadata", "metadata.example.com", "169.254.169.254.nip.io", "ip-100-100-100-200.ec2.internal",
    ],
)  # fmt: skip
def test_check__other_names_are_decided_by_their_addresses_at_each_call(host: str) -> None:
    CHANNELS.get("WEBHOOK").check(f"https://{host}/hook")


def test_check__private_address_is_decided_by_the_policy_at_each_call() -> None:
    CHANNELS.get("WEBHOOK").check("http://10.0.0.7:8080/hook")
