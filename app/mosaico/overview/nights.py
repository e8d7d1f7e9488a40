"""The last nights of an agent on a benchmark: each against the usual level of the pair; pure."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from mosaico.core.schemas import WireModel
from mosaico.overview.changes import FAILED, NEWS
from mosaico.statistics.verdict_rules import Scale, Side, Verdict

SHOWN_NIGHTS: Final = 14
# Of the smallest drop that a run can show: from them on a night is a little worse, worse, and much worse.
_WORSE: Final = (0.5, 1.0, 1.5)
_BETTER: Final = (0.5, 1.0)


class NightOutcome(StrEnum):
    """What happened in a night; NO_VALUE: a valid run whose KPI is undefined."""

    REGRESSED = "REGRESSED"
    FAILED = "FAILED"
    INVALID = "INVALID"
    CHANGED = "CHANGED"
    SAME_ANSWERS = "SAME_ANSWERS"
    NO_VALUE = "NO_VALUE"


class Night(WireModel):
    """A day of an agent on a benchmark. `step` is how far the value is from the usual one: 1 to 3 worse as -1 to -3,
    better as 1 or 2, 0 as usual; null without a value, or where no run says what counts. `outcome` is news of the day.
    """

    day: date
    value: Annotated[float | None, Field(description="Value of the last run with new data.")]
    step: Annotated[int | None, Field(description="Distance from the usual value, in steps.")]
    outcome: Annotated[NightOutcome | None, Field(description="What happened; null without news.")]

    @property
    def has_run(self) -> bool:
        return self.value is not None or self.outcome is not None


class NightBounds(NamedTuple):
    """A calendar day of a zone, as a range of instants: `since` included, `until` excluded."""

    day: date
    since: datetime
    until: datetime


class UsualLevel(NamedTuple):
    """What is usual for a KPI: its level, and the smallest change that a run can show."""

    level: float | None
    detectable: float | None
    scale: Scale | None
    side: Side | None

    def step_of(self, value: float | None) -> int | None:
        """How many steps a value is worse (below 0) or better than usual."""
        if value is None:
            return None
        if self.level is None or not self.detectable:
            return 0
        distance = value - self.level
        if self.scale is Scale.RATIO:
            distance = distance / abs(self.level) if self.level else 0.0
        if self.side is Side.HIGH:
            distance = -distance
        # A value on a limit counts, whatever its rounding.
        size = round(abs(distance) / self.detectable, 9)
        if distance < 0:
            return -sum(size >= limit for limit in _WORSE)
        return sum(size >= limit for limit in _BETTER)


def list_nights(newest: datetime, zone: ZoneInfo, count: int = SHOWN_NIGHTS) -> list[NightBounds]:
    """The last days of a zone up to that of the newest run, oldest first."""
    last = newest.astimezone(zone).date()
    days = [last + timedelta(days=offset) for offset in range(1 - count, 2)]
    starts = [datetime(day.year, day.month, day.day, tzinfo=zone) for day in days]
    return [
        NightBounds(day, since, until)
        for day, since, until in zip(days[:-1], starts[:-1], starts[1:], strict=True)
    ]


def worst_outcome(outcomes: Sequence[str]) -> str | None:
    """The outcome of a day that a reader must see first."""
    return min(outcomes, key=NEWS.index, default=None)


def build_nights(
    bounds: Sequence[NightBounds],
    values: Mapping[date, tuple[float | None, Verdict | None]],
    news: Mapping[date, Sequence[str]],
    usual: UsualLevel,
) -> list[Night]:
    """The nights of a pair. A drop is marked in the night in which it began, not in each that has it."""
    nights, was_worse = [], False
    for night in bounds:
        value, verdict = values.get(night.day, (None, None))
        outcome = worst_outcome(
            [name for name in news.get(night.day, ()) if name != Verdict.REGRESSED]
        )
        if verdict is Verdict.REGRESSED and not was_worse:
            outcome = Verdict.REGRESSED
        if night.day in values:
            was_worse = verdict is Verdict.REGRESSED
        nights.append(
            Night(
                day=night.day,
                value=value,
                step=usual.step_of(value),
                outcome=outcome or _presence(night, values),
            )
        )
    return nights


def _presence(
    night: NightBounds, values: Mapping[date, tuple[float | None, Verdict | None]]
) -> str | None:
    """A run without a value is no gap."""
    return "NO_VALUE" if night.day in values and values[night.day][0] is None else None


def describe_nights(nights: Sequence[Night]) -> list[tuple[date, str]]:
    """The nights that are not as usual, in words."""
    words = {-1: "a little worse", -2: "worse", -3: "much worse", 1: "a little better", 2: "better"}
    outcomes = {
        Verdict.REGRESSED: "regressed", FAILED: "failed", Verdict.INVALID: "invalid",
        Verdict.CHANGED: "changed", "SAME_ANSWERS": "same answers again", "NO_VALUE": "no value",
    }  # fmt: skip
    texts = []
    for night in nights:
        parts = [words.get(night.step or 0, ""), outcomes.get(night.outcome or "", "")]
        text = ", ".join(filter(None, parts)) if night.has_run else "no run"
        if text:
            texts.append((night.day, text))
    return texts
