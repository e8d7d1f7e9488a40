"""The loop of the scheduler: several of them, and how long each waits."""

import threading
from contextlib import ExitStack

import pytest

from mosaico.core.db import Database
from mosaico.schedules import ticker as ticks
from mosaico.schedules.ticker import Ticker
from tests.support.service import Service
from tests.support.stored import DatabaseReader
from tests.support.waiting import LIVENESS_S

AN_HOUR_S = 3600.0


def test_ticker__four_schedulers_fire_every_instant_once(
    prepared_service: Service, service: Service, rows: DatabaseReader
) -> None:
    """200 schedules that are due every second, for some seconds."""
    prepared_service.post(
        "/schedule-configs",
        {
            "id": "s",
            "name": "s",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "* * * * * *",
            "enabled": False,
        },
    )
    # By SQL: all of them are due from the same second on.
    rows.execute(
        """
        INSERT INTO schedule_configs SELECT (jsonb_populate_record(one, jsonb_build_object(
            'id', 's-' || n, 'enabled', true,
            'next_run_at', date_trunc('second', clock_timestamp())))).*
        FROM schedule_configs AS one, generate_series(1, 200) AS n
        """
    )
    enough = "SELECT count(*) >= 800 FROM schedule_fires"
    waiting = threading.Event()
    with ExitStack() as tickers:
        for _ in range(4):
            ticker = Ticker(service.resources.db)
            ticker.start()
            tickers.callback(ticker.stop)
        for _ in range(int(LIVENESS_S / 0.1)):
            if rows.value(enough):
                break
            waiting.wait(0.1)
    assert rows.value(enough)
    # One that was missed or fired twice is not followed by the next second.
    assert (
        rows.all(
            """
            SELECT schedule_id, due_at, following FROM (
                SELECT schedule_id, due_at, lead(due_at) OVER (PARTITION BY schedule_id
                                                               ORDER BY due_at) AS following
                FROM schedule_fires) AS fire
            WHERE following <> due_at + interval '1 second'
            """
        )
        == []
    )
    # Each instant that waits has its place in a job.
    jobs, fired = rows.all(
        "SELECT (SELECT sum(jsonb_array_length(args -> 'fires')) FROM procrastinate_jobs"
        " WHERE task_name = 'schedules.start'),"
        " (SELECT count(*) FROM schedule_fires WHERE status = 'PENDING')"
    )[0]
    assert jobs == fired


def test_ticker__repeats_at_once_while_instants_are_due(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_s = iter([0.0] * 300)
    over = threading.Event()

    def fire(_db: Database) -> float:
        wait_s = next(waits_s, None)
        if wait_s is None:
            over.set()
        return AN_HOUR_S if wait_s is None else wait_s

    # One wait between the 301 calls would take an hour, and so fail the test.
    monkeypatch.setattr(ticks, "MAX_WAIT_S", AN_HOUR_S)
    monkeypatch.setattr(ticks, "fire_all_due", fire)
    ticker = Ticker(service.resources.db)
    ticker.start()
    assert over.wait(LIVENESS_S)
    ticker.stop()
