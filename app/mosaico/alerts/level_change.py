"""What a message says about the value of an alert: its level before and now, its change, and since when."""

from datetime import datetime
from typing import NamedTuple, Protocol

from mosaico.alerts.details import AlertDetails
from mosaico.alerts.natural_scale import EvidenceText, value_of_level
from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.silence_matchers import MatchedAlert
from mosaico.kpis.number_text import format_value, format_values, short_value

# States of an open incident: its worst items and what to do are of interest.
BAD_STATES = frozenset({AlertEventState.FIRING, AlertEventState.WORSE, AlertEventState.LATE})
# States that tell a new level.
CHANGED_STATES = BAD_STATES | {AlertEventState.PARTLY_BACK}


class AlertFields(MatchedAlert, Protocol):
    """The fields of an alert that its message shows."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def incident_id(self) -> str | None: ...
    @property
    def value(self) -> float | None: ...
    @property
    def baseline(self) -> float | None: ...
    @property
    def explanation(self) -> str: ...
    @property
    def details(self) -> AlertDetails: ...
    @property
    def created_at(self) -> datetime: ...


def describe_levels(alert: AlertFields, title_note: str | None, *, with_baseline: bool) -> str:
    """The name and the value with a note on its limit; `with_baseline`: the level before and now, such as
    "quality 0.900 → 0.620".
    """
    details = alert.details
    name = details.value_name or alert.name
    if alert.value is None:
        return name
    note = f", {title_note}" if title_note else ""
    if alert.baseline is None or not with_baseline:
        if note:
            return (
                f"{name} {short_value(alert.value, details.unit, is_share=details.is_share)}{note}"
            )
        text = format_value(alert.value, details.unit, is_share=details.is_share)
        return f"{name} is {text}"
    levels = _Levels.of(alert)
    before, now = format_values(
        [levels.before, levels.now], details.unit, is_share=details.is_share
    )
    window = f" in {levels.width} runs" if levels.width > 1 else ""
    return f"{name} {before} → {now}{window}{note}"


def describe_change(alert: AlertFields) -> str | None:
    """The levels with the range of their difference; None for an alert without an interval."""
    details, evidence = alert.details, alert.details.runs
    change = EvidenceText.of(evidence, is_share=details.is_share, is_relative=details.is_relative)
    if (
        AlertEventState(alert.state) not in CHANGED_STATES
        or evidence is None
        or change is None
        or alert.value is None
        or alert.baseline is None
    ):
        return None
    levels = _Levels.of(alert)
    value, now, earlier, baseline = (
        format_value(level, details.unit, is_share=details.is_share)
        for level in (alert.value, levels.now, levels.before, alert.baseline)
    )
    is_one_run = levels.width == 1
    present = f"is {value}, was" if is_one_run else f"was {now} in the last {levels.width} runs"
    inside = f" {earlier} earlier in the incident and" if levels.is_inside else ""
    separator = "" if is_one_run else "," if inside else " and"
    reference = "run" if evidence.reference == 1 else f"{evidence.reference} runs"
    this_run = "" if is_one_run else f"; {value} in the last one"
    return (
        f"{details.value_name or alert.name} {present}{separator}{inside} {baseline} in the {reference} before"
        f"{' it' if levels.is_inside else ''} ({change}){this_run}."
    )


class _Levels(NamedTuple):
    """What an alert about two values compares: the last `width` runs with those before them. `before` is, of a
    change inside an incident, the level of the incident until then.
    """

    before: float
    now: float
    width: int
    is_inside: bool

    @classmethod
    def of(cls, alert: AlertFields) -> "_Levels":
        """Of an alert that has a value and a baseline."""
        assert alert.value is not None, "checked by the caller"
        assert alert.baseline is not None, "checked by the caller"
        details, before, now, width = alert.details, alert.baseline, alert.value, 1
        evidence = details.runs
        if evidence is None:
            return cls(before, now, width, is_inside=False)
        is_relative = details.is_relative
        # The value of one run says less than the level of the runs that the alert is about.
        if evidence.level is not None and (evidence.width or 1) > 1:
            now, width = (
                value_of_level(evidence.level, evidence, is_relative=is_relative),
                evidence.width or 1,
            )
        if evidence.earlier_level is None:
            return cls(before, now, width, is_inside=False)
        before = value_of_level(evidence.earlier_level, evidence, is_relative=is_relative)
        return cls(before, now, width, is_inside=True)
