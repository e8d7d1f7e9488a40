"""A run that is cancelled in its finishing step ends soon, and without a result."""

import time

import pytest

from app.results import queries
from app.results.queries import ScoredTrace
from app.runs import aggregation
from app.runs.leases import LEASE_CHECK_INTERVAL_S
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

RUN = "/benchmark-runs"
TRACES = 60
READ_S = 0.05
STORED = """
    SELECT (SELECT count(*) FROM run_metrics), (SELECT count(*) FROM kpi_history),
           (SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))
"""


def test_finish__a_cancelled_run_ends_between_two_reads(
    service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its reads would take three seconds, those of a large run take more."""
    service.create_agent()
    service.create_benchmark(measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload(map(pair, range(TRACES)))
    run_id = service.start_run()["id"]
    read_scored_traces, positions = queries.read_scored_traces, list[int]()

    def cancel_and_read_slowly(*arguments: int) -> list[ScoredTrace]:
        if not positions:
            service.post(f"{RUN}/{run_id}/cancel")
        positions.append(arguments[3])
        time.sleep(READ_S)
        return read_scored_traces(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(aggregation, "TRACES_PER_READ", 1)
    monkeypatch.setattr(queries, "read_scored_traces", cancel_and_read_slowly)
    service.work()
    assert 1 <= len(positions) <= LEASE_CHECK_INTERVAL_S / READ_S + 1 < TRACES / 2
    assert service.get(f"{RUN}/{run_id}")["status"] == "CANCELLED"
    assert rows.all(STORED) == [(0, 0, 0)]
