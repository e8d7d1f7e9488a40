"""Jumps of the wall clock, and the periodic functions after them."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from mosaico.jobs.clock_watch import ClockWatch, DatabaseClockWatch, PeriodicTrigger, run_jobs_now


def test_clock_watch__reports_each_jump_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, real_time = ClockWatch(), time.time
    assert watch.find_jump() == 0

    for jump_s in (86_400.0, -3_600.0):
        previous_time = time.time
        monkeypatch.setattr(time, "time", lambda now=previous_time, by=jump_s: now() + by)
        assert watch.find_jump() == pytest.approx(jump_s, abs=0.4)
        assert watch.find_jump() == 0
    assert time.time() - real_time() == pytest.approx(82_800, abs=0.4)


class DatabaseClock:
    """A database that answers with its time; the time passes as often as a clock is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset_s, self.answer_s, self._elapsed_s = 0.0, 0.0, 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self._elapsed_s)

    def find_jump(self, watch: DatabaseClockWatch, after_s: float = 2.0) -> float:
        self._elapsed_s += after_s
        session: Any = self
        return watch.find_jump(session)

    def scalars(self, _: object) -> "DatabaseClock":
        return self

    def one(self) -> datetime:
        self._elapsed_s += self.answer_s
        return datetime.fromtimestamp(1_800_000_000 + self.offset_s + self._elapsed_s, UTC)


def test_database_clock_watch__reports_each_jump_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watch = DatabaseClock(monkeypatch), DatabaseClockWatch()
    assert clock.find_jump(watch) == 0

    for jump_s in (5_184_000.0, -3_600.0, -3.0):
        clock.offset_s += jump_s
        assert clock.find_jump(watch) == pytest.approx(jump_s)
        assert clock.find_jump(watch) == 0


def test_database_clock_watch__slow_answers_and_slewing_are_no_jumps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, watch = DatabaseClock(monkeypatch), DatabaseClockWatch()
    for answer_s in (0.0, 30.0, 0.0, 30.0):
        clock.answer_s = answer_s
        clock.offset_s += 0.5
        assert clock.find_jump(watch) == 0


def test_periodic_trigger__misses_of_60_days_are_one_start() -> None:
    trigger, now = PeriodicTrigger(2.0), datetime.now(UTC)
    interval = timedelta(seconds=2)

    assert trigger.get_next_fire_time(None, now) == now + interval
    assert trigger.get_next_fire_time(now, now) == now + interval
    assert trigger.get_next_fire_time(now - timedelta(seconds=1), now) == now + interval / 2
    assert trigger.get_next_fire_time(now - timedelta(days=60), now) == now + interval


def test_run_jobs_now__function_that_waits_for_the_old_time_runs_now() -> None:
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(print, "interval", seconds=60, id="tick")
    scheduler.start(paused=True)
    try:
        later = datetime.now(UTC) + timedelta(days=60)
        scheduler.modify_job("tick", next_run_time=later)
        run_jobs_now(scheduler)
        assert scheduler.get_job("tick").next_run_time <= datetime.now(UTC)
    finally:
        scheduler.shutdown(wait=False)
