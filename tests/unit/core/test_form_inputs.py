"""Values and errors of the API as the inputs of a form show them."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from mosaico.core.web.forms.fields import InputKind
from mosaico.core.web.forms.local_times import FormZones, read_local_time
from mosaico.core.web.forms.rendering import FieldInput, write_value

ROME, TOKYO, UTC = ZoneInfo("Europe/Rome"), ZoneInfo("Asia/Tokyo"), ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("value", "text_in_form"),
    [(600.0, "600"), (0.1, "0.1"), (123456.789, "123456.789"), (1500000.0, "1500000"), (12, "12"), (0.0, "0")],
)  # fmt: skip
def test_input__shows_a_number_with_all_digits(value: float, text_in_form: str) -> None:
    """A form that is saved unchanged must not round a stored threshold."""
    text = write_value(InputKind.NUMBER, value, FieldInput())
    assert text == text_in_form
    assert float(text) == value


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2026-11-21T18:00", ROME, "2026-11-21T17:00:00+00:00"),
        ("2026-07-21T18:00", ROME, "2026-07-21T16:00:00+00:00"),
        ("2026-11-21T18:00", UTC, "2026-11-21T18:00:00+00:00"),
        # Comes twice: the first time.
        ("2026-10-25T02:30", ROME, "2026-10-25T00:30:00+00:00"),
        ("2026-11-21T18:00+02:00", ROME, "2026-11-21T18:00:00+02:00"),
    ],
)
def test_local_time__is_read_in_its_zone(text: str, zone: ZoneInfo, instant: str) -> None:
    assert read_local_time(text, zone) == instant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-03-29T02:30", "does not exist in Europe/Rome"),
        ("soon", "is not a date and time"),
        ("0001-01-01T00:00", "outside of the supported years"),
        ("9999-12-31T23:59", "outside of the supported years"),
    ],
)
def test_local_time__that_is_no_instant_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_local_time(text, ROME)


@pytest.mark.parametrize(
    "instant",
    ["2026-11-21T17:00:00+00:00", "2026-10-25T00:30:00+00:00", "2026-10-25T01:30:00Z", "2026-03-29T01:00:00Z"],
)  # fmt: skip
@pytest.mark.parametrize("zone", [ROME, TOKYO, UTC])
def test_local_time__that_is_saved_unchanged_stays_the_same_instant(
    instant: str, zone: ZoneInfo
) -> None:
    local_time = FormZones(zone, {}).show("endsAt", instant)
    read = datetime.fromisoformat(read_local_time(local_time.text, ZoneInfo(local_time.zone)))
    assert read == datetime.fromisoformat(instant)


def test_local_time__is_shown_in_the_chosen_zone_and_a_wrong_text_as_it_was_typed() -> None:
    zones = FormZones(TOKYO, {"endsAt": UTC})
    assert zones.show("startsAt", "2026-11-21T17:00:00Z") == ("2026-11-22T02:00", "Asia/Tokyo")
    assert zones.show("endsAt", "2026-11-21T17:00:00Z") == ("2026-11-21T17:00", "UTC")
    assert zones.show("endsAt", "2026-03-29T02:30") == ("2026-03-29T02:30", "UTC")
    assert zones.show("endsAt", None) == ("", "UTC")
    assert zones.choices("UTC") == [("UTC", "UTC"), ("Asia/Tokyo", "Asia/Tokyo")]
