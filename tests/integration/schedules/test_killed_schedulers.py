"""4 schedulers, 200 schedules, 10 000 instants, and a scheduler killed every two seconds."""

import os
import random
import subprocess
import sys
import threading
import time

import pytest

from tests.support.service import Service
from tests.support.stored import DatabaseReader
from tests.support.waiting import LIVENESS_S

SCHEDULES = 200
INSTANTS = 10_000
SCHEDULERS = 4
KILL_EVERY_S = 2.0

FILL = """
    INSERT INTO schedule_configs SELECT (jsonb_populate_record(one, jsonb_build_object(
        'id', 's-' || n, 'enabled', true,
        'next_run_at', date_trunc('second', clock_timestamp())))).*
    FROM schedule_configs AS one, generate_series(1, %s) AS n
"""
# A row stands for all instants up to `range_end`; the next row begins a second later.
GAPS = """
    SELECT schedule_id, due_at FROM (
        SELECT schedule_id, due_at, range_end,
               lead(due_at) OVER (PARTITION BY schedule_id ORDER BY due_at) AS following
        FROM schedule_fires) AS fire
    WHERE following <> coalesce(range_end, due_at) + interval '1 second'
"""
JOBS = """
    SELECT fire::bigint FROM procrastinate_jobs, jsonb_array_elements(args -> 'fires') AS fire
    WHERE task_name = 'schedules.start' ORDER BY 1
"""
PENDING = "SELECT seq FROM schedule_fires WHERE status = 'PENDING' ORDER BY 1"

TICK = """
import os, threading
from mosaico.core.db import Database
from mosaico.schedules.ticker import Ticker
Ticker(Database(os.environ["DATABASE_URL"], pool_size=2, name="scheduler")).start()
threading.Event().wait()
"""


def scheduler(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", TICK], env={**os.environ, "DATABASE_URL": url})


@pytest.mark.prove
def test_ticker__killed_schedulers_lose_and_double_no_instant(
    service: Service, rows: DatabaseReader
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    body = {"id": "s", "name": "s", "benchmarkId": "bench-001", "agentId": "agent-001"}
    service.post("/schedule-configs", {**body, "cronExpression": "* * * * * *", "enabled": False})
    rows.execute(FILL, SCHEDULES)
    url = service.resources.db.url
    living = [scheduler(url) for _ in range(SCHEDULERS)]
    chance, waiting = random.Random(20_261_122), threading.Event()
    deadline = time.monotonic() + LIVENESS_S
    try:
        while rows.value("SELECT count(*) FROM schedule_fires") < INSTANTS:
            assert time.monotonic() < deadline
            waiting.wait(KILL_EVERY_S)
            victim = chance.randrange(SCHEDULERS)
            living[victim].kill()
            living[victim].wait()
            living[victim] = scheduler(url)
    finally:
        for process in living:
            process.kill()
            process.wait()
    assert rows.all(GAPS) == []
    # Each instant that waits is in a job, and in one only.
    assert rows.all(JOBS) == rows.all(PENDING)
    fired = rows.all("SELECT count(*), count(DISTINCT schedule_id) FROM schedule_fires")
    assert fired[0][0] >= INSTANTS
    assert fired[0][1] == SCHEDULES
