"""What changed: one change for one drop, in the group in which a period has it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from mosaico.overview.changes import (
    FAILED,
    Change,
    ChangeGroup,
    ChangeOutcome,
    IncidentSpan,
    JudgedAs,
    NewsRun,
    Pair,
    StatedJudgement,
    count_changes,
    list_changes,
)

PAIR: Final = Pair("support", "billing")
NOW: Final = datetime(2026, 11, 28, 7, tzinfo=UTC)
DAY: Final = NOW - timedelta(hours=24)
MONTH: Final = NOW - timedelta(days=30)


def night(back: int) -> datetime:
    return NOW - timedelta(days=back, hours=1)


def news_run(back: int, outcome: ChangeOutcome = ChangeOutcome.REGRESSED, **fields: Any) -> NewsRun:
    """A run of `back` nights ago, which the run of the next night follows."""
    following = {
        "next_seq": 100 - back + 1,
        "next_id": f"run-{back - 1}",
        "next_at": night(back - 1),
    }
    defaults: dict[str, Any] = {"kpi_ids": ("pass",), **(following if back else {})}
    return NewsRun(PAIR, 100 - back, f"run-{back}", outcome, night(back), **{**defaults, **fields})


def incident(first: int, last: int = 0, **fields: Any) -> IncidentSpan:
    """An open incident about the pass rate from `first` to `last` nights ago."""
    defaults: dict[str, Any] = {
        "id": f"incident-{first}", "pair": PAIR, "kpi": "pass", "metric": None, "state": "OPEN", "resolution": None,
        "started_seq": 100 - first, "end_seq": None, "last_seq": 100 - last, "runs": first - last + 1,
        "started_at": night(first), "opened_at": night(first), "opened_run_id": f"run-{first}", "resolved_at": None,
        "resolved_run_id": None, "judgement": None,
    }  # fmt: skip
    return IncidentSpan(**{**defaults, **fields})


def closed(first: int, resolution: str, at: datetime, **fields: Any) -> IncidentSpan:
    ended = {"state": "RESOLVED", "resolution": resolution, "resolved_at": at, "end_seq": 100}
    return incident(first, 1, **{**ended, **fields})


def judged(verdict: JudgedAs, at: datetime) -> StatedJudgement:
    return StatedJudgement(verdict, at, "key-1", "the price list is old")


def group_of(change: Change, since: datetime = DAY) -> ChangeGroup | None:
    return change.group_in(since)


@pytest.mark.parametrize(
    ("span", "group"),
    [
        (incident(0), ChangeGroup.NEW),
        (incident(28), ChangeGroup.ONGOING),
        (closed(3, "RECOVERED", night(0)), ChangeGroup.RECOVERED),
        (closed(9, "RECOVERED", night(5)), None),
        (incident(0, judgement=judged(JudgedAs.TRUE, night(0))), ChangeGroup.JUDGED),
        # It is still there, whoever saw it weeks ago.
        (incident(28, judgement=judged(JudgedAs.TRUE, night(26))), ChangeGroup.ONGOING),
        (closed(0, "NOISE", night(0), judgement=judged(JudgedAs.NOISE, night(0))), ChangeGroup.JUDGED),
        (closed(9, "NOISE", night(5), judgement=judged(JudgedAs.NOISE, night(5))), None),
        # At a fixed threshold a false alarm goes on until the value is back.
        (incident(9, judgement=judged(JudgedAs.NOISE, night(5))), ChangeGroup.ONGOING),
        (closed(4, "ACCEPTED", night(0), judgement=judged(JudgedAs.ACCEPTED, night(0))), ChangeGroup.JUDGED),
    ],
)  # fmt: skip
def test_incident__is_in_one_group_of_the_day(
    span: IncidentSpan, group: ChangeGroup | None
) -> None:
    [change] = list_changes([], [span])
    assert group_of(change) == group


def test_drop__with_an_incident_is_one_change() -> None:
    runs = [news_run(back) for back in (2, 1, 0)]
    [change] = list_changes(runs, [incident(2)])
    assert (change.incident_ids, change.runs, change.since) == (("incident-2",), 3, night(2))


def test_another_number_that_falls_later__is_a_change_of_its_own() -> None:
    runs = [news_run(1), news_run(0, kpi_ids=("pass", "cost"))]
    changes = list_changes(runs, [incident(1)])
    assert sorted(change.kpi_ids for change in changes) == [("cost",), ("pass",)]
    assert {change.kpi_ids: group_of(change) for change in changes} == {
        ("pass",): ChangeGroup.ONGOING,
        ("cost",): ChangeGroup.NEW,
    }


def test_numbers_that_fall_together__are_one_change_until_the_first_is_a_false_alarm() -> None:
    run = news_run(0, kpi_ids=("pass", "cost"))
    assert [change.kpi_ids for change in list_changes([run], [incident(0)])] == [("pass",)]
    noise = closed(0, "NOISE", night(0), judgement=judged(JudgedAs.NOISE, night(0)), end_seq=101)
    changes = list_changes([run], [noise])
    assert {change.kpi_ids: group_of(change) for change in changes} == {
        ("pass",): ChangeGroup.JUDGED,
        ("cost",): ChangeGroup.NEW,
    }


def test_runs_without_a_rule__are_a_change_from_the_first_bad_to_the_first_good_one() -> None:
    fallen = [news_run(back) for back in (9, 8, 7)]
    [change] = list_changes(fallen, [])
    assert (change.runs, change.since, change.ended_at) == (3, night(9), night(6))
    assert (group_of(change, MONTH), group_of(change)) == (ChangeGroup.RECOVERED, None)
    [failed] = list_changes([news_run(0, FAILED, kpi_ids=())], [])
    assert group_of(failed) == ChangeGroup.NEW


def test_each_drop_of_a_month__is_counted_in_the_period_that_has_it() -> None:
    """An agent that fell in eight separate nights of the month had eight changes."""
    nights = (1, 4, 7, 10, 13, 16, 19, 22)
    changes = list_changes([news_run(back) for back in nights], [])
    starts = {"24 h": DAY, "7 days": NOW - timedelta(days=7), "30 days": MONTH}
    # That of the last night recovered within the day; those of 1 and 4 nights ago ended in the week, and that of 7.
    assert count_changes(changes, starts) == {"24 h": 1, "7 days": 3, "30 days": 8}


def test_two_rules_about_one_number__are_one_open_change() -> None:
    [change] = list_changes([], [incident(1), incident(0)])
    assert change.incident_ids == ("incident-1", "incident-0")


def test_accepted_run__is_judged() -> None:
    run = news_run(0, acceptance=judged(JudgedAs.ACCEPTED, night(0)))
    [change] = list_changes([run], [])
    assert group_of(change) == ChangeGroup.JUDGED


def test_change_without_a_direction__is_no_recovery_when_it_is_over() -> None:
    [change] = list_changes([news_run(3, ChangeOutcome.CHANGED)], [])
    assert (group_of(change, MONTH), group_of(change)) == (ChangeGroup.NEW, None)
