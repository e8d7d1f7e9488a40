"""A run that is cancelled in its finishing step ends soon, and without a result."""

import pytest

from mosaico.run_store import queries
from mosaico.run_store.scored_trace import ScoredTrace
from mosaico.runs import aggregation, leases
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

RUN = "/benchmark-runs"
TRACES = 60
STORED = """
    SELECT (SELECT count(*) FROM run_metrics), (SELECT count(*) FROM kpi_history),
           (SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))
"""


def test_finish__a_cancelled_run_ends_between_two_reads(
    service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.create_agent()
    service.create_benchmark(measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload(map(pair, range(TRACES)))
    run_id = service.start_run()["id"]
    read_scored_traces, positions = queries.read_scored_traces, list[int]()

    def cancel_and_read(*arguments: int, with_items: bool) -> list[ScoredTrace]:
        if not positions:
            service.post(f"{RUN}/{run_id}/cancel")
        positions.append(arguments[3])
        return read_scored_traces(*arguments, with_items=with_items)  # type: ignore[arg-type]

    monkeypatch.setattr(aggregation, "TRACES_PER_READ", 1)
    # Before each read, and not only where half a second has passed.
    monkeypatch.setattr(leases, "LEASE_CHECK_INTERVAL_S", 0.0)
    monkeypatch.setattr(queries, "read_scored_traces", cancel_and_read)
    service.work()
    assert len(positions) == 1
    assert service.get(f"{RUN}/{run_id}")["status"] == "CANCELLED"
    assert rows.all(STORED) == [(0, 0, 0)]
