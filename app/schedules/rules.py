"""Decisions about schedules: which due instants fire, which are skipped and why, when to give up."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from app.core.errors import ErrorItem, Invalid
from app.schedules.cron import CronExpression, DstPolicy
from app.schedules.zones import SECOND, find_zone

# A tick that comes so late is still on time: it is no misfire.
ON_TIME = timedelta(seconds=5)
FIRE_ALL_LIMIT = 100
# So many missed instants of one schedule have a row each; older ones share one.
RECORDED_LIMIT = 500


class MisfirePolicy(StrEnum):
    """What becomes of instants that passed while no scheduler ran."""

    FIRE_ONCE = "FIRE_ONCE"
    SKIP = "SKIP"
    FIRE_ALL = "FIRE_ALL"


class ConcurrencyPolicy(StrEnum):
    """What becomes of an instant while a run of the schedule is under way."""

    FORBID = "FORBID"
    ALLOW = "ALLOW"
    REPLACE = "REPLACE"


class FireStatus(StrEnum):
    """PENDING: a worker is about to start the run. FAILED: no run could be started."""

    PENDING = "PENDING"
    STARTED = "STARTED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class SkipReason(StrEnum):
    """Why an instant started no run."""

    MISSED = "MISSED"
    COALESCED = "COALESCED"
    FIRE_ALL_LIMIT = "FIRE_ALL_LIMIT"
    OUTSIDE_CATCHUP_WINDOW = "OUTSIDE_CATCHUP_WINDOW"
    TOO_MANY_MISSED = "TOO_MANY_MISSED"
    OVERLAP = "OVERLAP"
    NO_NEW_RUN = "NO_NEW_RUN"


SKIP_DETAILS = {
    SkipReason.MISSED: "it was missed, and misfirePolicy is SKIP",
    SkipReason.COALESCED: "it was missed, and misfirePolicy FIRE_ONCE fires the newest only",
    SkipReason.FIRE_ALL_LIMIT: f"misfirePolicy FIRE_ALL fires the newest {FIRE_ALL_LIMIT} only",
    SkipReason.OUTSIDE_CATCHUP_WINDOW: "it was missed by more than catchupWindowSeconds",
    SkipReason.TOO_MANY_MISSED: f"only the newest {RECORDED_LIMIT} missed instants are looked at",
    SkipReason.OVERLAP: "an earlier run of the schedule is under way, and concurrencyPolicy is"
    " FORBID",
    SkipReason.NO_NEW_RUN: "the newest complete run that matches runNamePattern was judged already,"
    " or there is none",
}


class NeverFires(Invalid):
    """The cron expression never fires; no date matches all its fields."""

    code = "never-fires"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a schedule is due, as it is stored."""

    cron_expression: str
    timezone: str
    dst_policy: DstPolicy

    def next(self, after: datetime) -> datetime | None:
        """The first due instant after another, in UTC; raises `InvalidCron`, `UnknownZone`."""
        expression = CronExpression.parse(self.cron_expression)
        found = expression.next(after, find_zone(self.timezone), policy=self.dst_policy)
        # In a zone with changing clocks, Python compares and adds wall times.
        return None if found is None else found.astimezone(UTC)

    def instants(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The due instants after one and not after another."""
        found = self.next(after)
        while found is not None and found <= until:
            yield found
            found = self.next(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfires:
    """How a schedule wants to catch up."""

    policy: MisfirePolicy
    catchup_window: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedInstant:
    """A due instant, or all from `due_at` to `until`, that starts nothing."""

    due_at: datetime
    until: datetime | None
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TickPlan:
    """What one tick does with a schedule that is due."""

    fire: tuple[datetime, ...]
    skip: tuple[SkippedInstant, ...]
    next_run_at: datetime | None


def plan_tick(timing: Timing, misfires: Misfires, due_at: datetime, now: datetime) -> TickPlan:
    """Which instants from `due_at` to `now` fire, and when the schedule is due again.

    Every instant is in the plan exactly once. Those at most `ON_TIME` late fire in any case; of
    the others the policy decides.
    Raises: `InvalidCron`, `UnknownZone`.
    """
    skipped: list[SkippedInstant] = []
    first: datetime | None = due_at
    oldest = (now - misfires.catchup_window).replace(microsecond=0)
    if due_at < oldest:
        first = _leap(timing, due_at, oldest, SkipReason.OUTSIDE_CATCHUP_WINDOW, skipped)
    instants = _newest(timing, first, now, skipped)
    missed = [instant for instant in instants if instant < now - ON_TIME]
    on_time = instants[len(missed) :]
    late, reason = _catch_up(misfires.policy, missed, something_on_time=bool(on_time))
    dropped = missed[: len(missed) - len(late)]
    skipped += [SkippedInstant(due_at=each, until=None, reason=reason) for each in dropped]
    last = instants[-1] if instants else now
    return TickPlan(fire=(*late, *on_time), skip=tuple(skipped), next_run_at=timing.next(last))


def _catch_up(
    policy: MisfirePolicy, missed: Sequence[datetime], *, something_on_time: bool
) -> tuple[Sequence[datetime], SkipReason]:
    """The newest of the missed instants that fire, and why the older ones do not."""
    match policy:
        case MisfirePolicy.SKIP:
            return (), SkipReason.MISSED
        case MisfirePolicy.FIRE_ONCE:
            return missed[:0] if something_on_time else missed[-1:], SkipReason.COALESCED
        case MisfirePolicy.FIRE_ALL:
            return missed[-FIRE_ALL_LIMIT:], SkipReason.FIRE_ALL_LIMIT


def _newest(
    timing: Timing, first: datetime | None, now: datetime, skipped: list[SkippedInstant]
) -> list[datetime]:
    """At most `RECORDED_LIMIT` instants up to now. When there are more, the older half of the
    time is leapt over until there are not.
    """
    while first is not None and first <= now:
        later = timing.instants(first, now)
        instants = [first, *itertools.islice(later, RECORDED_LIMIT)]
        if len(instants) <= RECORDED_LIMIT:
            return instants
        middle = (first + (now - first) // 2).replace(microsecond=0)
        first = _leap(timing, first, middle, SkipReason.TOO_MANY_MISSED, skipped)
    return []


def _leap(
    timing: Timing,
    first: datetime,
    target: datetime,
    reason: SkipReason,
    skipped: list[SkippedInstant],
) -> datetime | None:
    """Skip the instants from `first` to before `target`, in one row; returns the next one."""
    until = target - SECOND
    skipped.append(SkippedInstant(due_at=first, until=until, reason=reason))
    return timing.next(until)


def first_instant(timing: Timing, now: datetime) -> datetime:
    """When a new schedule is due first.

    Raises: `InvalidCron`, `UnknownZone`; `NeverFires` for one that never is, or has parts that
            never match.
    """
    expression = CronExpression.parse(timing.cron_expression)
    dead = ", ".join(expression.never_items)
    found = timing.next(now)
    if found is None or dead:
        what = f"its part {dead} never matches" if dead else "it never fires"
        detail = f"{what}: no date has all that its fields ask for"
        raise NeverFires(
            f"the cron expression {expression.text!r} is refused, {detail}; change the day fields",
            errors=[ErrorItem(pointer="/cronExpression", detail=detail)],
        )
    return found


def gives_up(*, failures: int, most: int, auto_disable: bool) -> bool:
    """Whether so many failures in a row disable a schedule."""
    return auto_disable and failures >= most
