"""Decisions about schedules: which due instants fire, which are skipped, when to disable."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.time_zones import SECOND, get_time_zone

# An instant that fires at most this late is on time, not a misfire.
# Above the promised 2 s of lateness under load, so that a slow tick is not a misfire.
ON_TIME = timedelta(seconds=5)
# A schedule of every second would start 3,600 runs after an outage of an hour.
FIRE_ALL_LIMIT = 100
# This many missed instants of one schedule have a row each; all older ones share one row.
RECORDED_LIMIT = 500
# The name of its database sessions, by which others see that it runs.
SCHEDULER_NAME = "mosaico-scheduler"


class MisfirePolicy(StrEnum):
    """Handling of instants that passed while no scheduler ran."""

    FIRE_ONCE = "FIRE_ONCE"
    SKIP = "SKIP"
    FIRE_ALL = "FIRE_ALL"


class ConcurrencyPolicy(StrEnum):
    """Handling of an instant while an earlier run of the schedule is in progress."""

    FORBID = "FORBID"
    ALLOW = "ALLOW"
    REPLACE = "REPLACE"


class FireStatus(StrEnum):
    """State of a due instant.

    PENDING: a worker is about to start the run. STARTED: the run was started. SKIPPED: no run was
    needed, see `FireSkipReason`. FAILED: the run could not be started.
    """

    PENDING = "PENDING"
    STARTED = "STARTED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class FireSkipReason(StrEnum):
    """The reason why a due instant started no run."""

    MISSED = "MISSED"
    COALESCED = "COALESCED"
    FIRE_ALL_LIMIT = "FIRE_ALL_LIMIT"
    OUTSIDE_CATCHUP_WINDOW = "OUTSIDE_CATCHUP_WINDOW"
    TOO_MANY_MISSED = "TOO_MANY_MISSED"
    OVERLAP = "OVERLAP"
    NO_NEW_RUN = "NO_NEW_RUN"
    DISABLED = "DISABLED"
    NONEXISTENT_TIME = "NONEXISTENT_TIME"


# The other reasons are not misses: another instant fired instead, there was nothing to run, or a run was in
# progress (see `missed_schedules.BLOCKED_AFTER`).
MISSED_REASONS = (
    FireSkipReason.MISSED,
    FireSkipReason.OUTSIDE_CATCHUP_WINDOW,
    FireSkipReason.TOO_MANY_MISSED,
)
# Due times without a run that people should see. One that does not exist is no failure of a scheduler: nobody is paged.
SHOWN_REASONS = (*MISSED_REASONS, FireSkipReason.NONEXISTENT_TIME)

# A page and a message show them, too: in plain words, without the names of fields.
SKIP_DETAILS: Final[Mapping[str, str]] = {
    FireSkipReason.MISSED: "no scheduler was running at that time, and the schedule skips missed times",
    FireSkipReason.COALESCED: "no scheduler was running at that time, and the schedule fires only the"
    " newest missed time",
    FireSkipReason.FIRE_ALL_LIMIT: "no scheduler was running at that time, and the schedule fires only"
    f" the newest {FIRE_ALL_LIMIT} missed times",
    FireSkipReason.OUTSIDE_CATCHUP_WINDOW: "no scheduler was running for longer than the catch-up"
    " window of the schedule",
    FireSkipReason.TOO_MANY_MISSED: "no scheduler was running for too long: only the newest"
    f" {RECORDED_LIMIT} missed times are processed",
    FireSkipReason.OVERLAP: "an earlier run of the schedule was in progress, and its runs do not"
    " overlap",
    FireSkipReason.NO_NEW_RUN: "no new complete run matches the run name pattern: there is none, or"
    " the newest one was evaluated before",
    FireSkipReason.NONEXISTENT_TIME: "the clocks went forward over this time, so it did not exist on that day",
    FireSkipReason.DISABLED: "failures disabled the schedule before this time was processed",
}


class NeverFires(Invalid):
    """The cron expression never fires: no date matches all its fields; change one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTiming:
    """The stored fields that determine when a schedule is due."""

    cron_expression: str
    timezone: str
    dst_policy: DstPolicy

    def next(self, after: datetime) -> datetime | None:
        """The first due instant after another, in UTC.

        Raises: `InvalidCron`, `UnknownTimeZone`.
        """
        expression = CronExpression.parse(self.cron_expression)
        zone = get_time_zone(self.timezone)
        instant = expression.next(after, zone, policy=self.dst_policy)
        # UTC, because Python compares and adds wall times within a zone whose clocks change.
        return None if instant is None else instant.astimezone(UTC)

    def instants(self, after: datetime, last: datetime) -> Iterator[datetime]:
        """The due instants after `after`, `last` included."""
        instant = self.next(after)
        while instant is not None and instant <= last:
            yield instant
            instant = self.next(instant)


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfireRules:
    """Rules for missed instants of a schedule."""

    policy: MisfirePolicy
    catchup_window: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedInstant:
    """A due instant that starts no run; with `range_end`, all instants from `due_at` to then."""

    due_at: datetime
    range_end: datetime | None
    reason: FireSkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TickPlan:
    """The plan of one tick for a due schedule: the instants that fire, and those that are skipped."""

    fire: tuple[datetime, ...]
    skip: tuple[SkippedInstant, ...]
    next_run_at: datetime | None


def plan_tick(
    timing: ScheduleTiming, misfire_rules: MisfireRules, due_at: datetime, now: datetime
) -> TickPlan:
    """Return which instants from `due_at` to `now` fire, and when the schedule is due again.

    Every instant is in the plan exactly once. Instants at most `ON_TIME` late always fire; for
    the others the misfire policy decides.
    Raises: `InvalidCron`, `UnknownTimeZone`.
    """
    skipped: list[SkippedInstant] = []
    first: datetime | None = due_at
    # Whole seconds, because `_skip_range` ends one second before this instant.
    window_start = (now - misfire_rules.catchup_window).replace(microsecond=0)
    if due_at < window_start:
        reason = FireSkipReason.OUTSIDE_CATCHUP_WINDOW
        first = _skip_range(timing, due_at, window_start, reason, skipped)
    instants = _newest_instants(timing, first, now, skipped)
    # The instants ascend, so `missed` is a prefix and the rest is on time.
    missed = [instant for instant in instants if instant < now - ON_TIME]
    on_time = instants[len(missed) :]
    late, reason = _catch_up(misfire_rules.policy, missed, has_on_time=bool(on_time))
    dropped = missed[: len(missed) - len(late)]
    skipped += [
        SkippedInstant(due_at=instant, range_end=None, reason=reason) for instant in dropped
    ]
    # From the last scheduled instant, not from now: an instant between the two would be lost.
    last = instants[-1] if instants else now
    return TickPlan(fire=(*late, *on_time), skip=tuple(skipped), next_run_at=timing.next(last))


def _catch_up(
    policy: MisfirePolicy, missed: Sequence[datetime], *, has_on_time: bool
) -> tuple[Sequence[datetime], FireSkipReason]:
    """The newest missed instants, which fire, and the reason why the older ones do not."""
    match policy:
        case MisfirePolicy.SKIP:
            return (), FireSkipReason.MISSED
        case MisfirePolicy.FIRE_ONCE:
            # One run on time replaces all missed ones.
            return missed[:0] if has_on_time else missed[-1:], FireSkipReason.COALESCED
        case MisfirePolicy.FIRE_ALL:
            return missed[-FIRE_ALL_LIMIT:], FireSkipReason.FIRE_ALL_LIMIT


def _newest_instants(
    timing: ScheduleTiming,
    first: datetime | None,
    now: datetime,
    skipped: list[SkippedInstant],
) -> list[datetime]:
    """At most `RECORDED_LIMIT` instants up to now.

    While there are more, the older half of the time span is skipped. Halving bounds the work: a
    schedule that fires every second may have been down for months.
    """
    while first is not None and first <= now:
        later = timing.instants(first, now)
        # One more than the limit shows that there are too many, without computing all of them.
        instants = [first, *itertools.islice(later, RECORDED_LIMIT)]
        if len(instants) <= RECORDED_LIMIT:
            return instants
        middle = (first + (now - first) // 2).replace(microsecond=0)
        first = _skip_range(timing, first, middle, FireSkipReason.TOO_MANY_MISSED, skipped)
    return []


def _skip_range(
    timing: ScheduleTiming,
    first: datetime,
    target: datetime,
    reason: FireSkipReason,
    skipped: list[SkippedInstant],
) -> datetime | None:
    """Skip the instants from `first` to before `target`, in one row; returns the next instant."""
    range_end = target - SECOND
    skipped.append(SkippedInstant(due_at=first, range_end=range_end, reason=reason))
    return timing.next(range_end)


def first_instant(timing: ScheduleTiming, now: datetime) -> datetime:
    """Return the first due instant of a new schedule.

    Raises: `InvalidCron`, `UnknownTimeZone`; `NeverFires` if it never fires, or has parts that
            never match.
    """
    expression = CronExpression.parse(timing.cron_expression)
    impossible = ", ".join(expression.impossible_items)
    instant = timing.next(now)
    if instant is None or impossible:
        problem = f"its part {impossible} never matches" if impossible else "it never fires"
        detail = f"{problem}: no date matches all its fields"
        raise NeverFires(
            f"the cron expression {expression.text!r} is not accepted, {detail};"
            " change the day fields",
            errors=[ErrorItem(pointer="/cronExpression", detail=detail)],
        )
    return instant


def should_disable(*, failures: int, max_failures: int, auto_disable: bool) -> bool:
    """Return whether this many failures in a row disable a schedule."""
    return auto_disable and failures >= max_failures


class FirePlan(BaseModel):
    """The target of a schedule at the time of the claim; later edits affect later instants only.

    The statement `INSERT_FIRES` writes it, so its names are those of the JSON document.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        defer_build=True,
    )

    version: Literal[1]
    benchmark_id: str
    agent_id: str
    run_name_pattern: str | None
    concurrency_policy: ConcurrencyPolicy
