"""What every channel promises. A new channel joins with a recipient of its own in `RECIPIENTS`."""

import re
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.errors import Invalid
from mosaico.notifications.registry import CHANNELS, load_channels, resolve_targets
from mosaico.notifications.types import DeliveryTarget
from tests.unit.notifications.test_safe_text import HOSTILE, notice_of

load_channels(print)

RECIPIENTS: Final = {
    "EMAIL": "ops@example.org",
    "SLACK": "https://hooks.slack.com/services/T0/B0/abcdef",
    "TEAMS": "https://prod-1.westeurope.logic.azure.com/workflows/1/invoke?sig=abcdef",
    "WEBHOOK": "https://build.example/hooks/abcdef0123",
}
LINKS: Final = (
    "javascript:alert(1)", "https://user@evil.example", 'https://x/"><script>', "data:text/html,x",
)  # fmt: skip
# Tab and line breaks are those of the format.
RAW_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
ITEMS: Final = 500

every_channel = pytest.mark.parametrize("channel", RECIPIENTS)


def test_contract__has_every_channel() -> None:
    assert {plugin.name for plugin in CHANNELS.loaded} == RECIPIENTS.keys()


@every_channel
def test_channel__recipient_belongs_to_it_alone(channel: str) -> None:
    """A list may name all channels, and each recipient gets one message."""
    everyone = [*RECIPIENTS.values()]
    targets = resolve_targets([*RECIPIENTS], everyone)
    assert [target for target in targets if target.channel == channel] == [
        DeliveryTarget(channel, RECIPIENTS[channel])
    ]


@every_channel
@pytest.mark.parametrize("recipient", ["", "ops", "{valid}\r\nBcc: x@evil.example", "{valid} "])
def test_channel__other_text_is_no_recipient(channel: str, recipient: str) -> None:
    with pytest.raises(Invalid):
        CHANNELS.get(channel).check(recipient.replace("{valid}", RECIPIENTS[channel]))


@every_channel
def test_channel__credential_in_an_address_is_not_shown(channel: str) -> None:
    recipient = RECIPIENTS[channel]
    shown = CHANNELS.get(channel).redact(recipient)
    assert shown == recipient if "@" in recipient else shown not in ("", recipient)


@every_channel
@pytest.mark.parametrize("text", HOSTILE)
def test_channel__no_control_character_of_a_user_is_sent(channel: str, text: str) -> None:
    assert not RAW_CONTROL.search(CHANNELS.get(channel).render(notice_of(text)))


@every_channel
@pytest.mark.parametrize("link", LINKS)
def test_channel__unsafe_link_is_omitted(channel: str, link: str) -> None:
    body = CHANNELS.get(channel).render(notice_of("pelican", link)).decode()
    assert "evil" not in body
    assert "script" not in body
    assert "data:text" not in body


@given(st.text(max_size=60))
def test_channels__any_name_can_be_rendered_and_each_attempt_sends_the_same(name: str) -> None:
    notice = notice_of(name)
    for channel in RECIPIENTS:
        render = CHANNELS.get(channel).render
        assert render(notice) == render(notice)


@every_channel
def test_channel__items_that_are_left_out_are_counted(channel: str) -> None:
    """Each format has its limit; what a message does not contain, it says."""
    notice = notice_of("pelican", items=ITEMS)
    items = [
        replace(item, title=f"item-{number}-", facts=())
        for number, item in enumerate(notice.message.items)
    ]
    message = replace(notice.message, items=tuple(items))
    body = CHANNELS.get(channel).render(replace(notice, message=message)).decode()
    shown = set(re.findall(r"item-\d+-", body))
    left_out = re.search(r"and (\d+) more", body)
    assert len(shown) + (int(left_out[1]) if left_out else 0) == ITEMS
