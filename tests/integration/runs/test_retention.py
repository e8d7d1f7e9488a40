from datetime import timedelta

from app.core.clock import utc_now
from app.runs.retention import purge_old_runs
from tests.support.service import Service, pair


def test_runs_are_kept_as_many_days_as_their_benchmark_says(service: Service) -> None:
    service.agent()
    service.benchmark(keepDays=7)
    service.benchmark("bench-002")
    service.upload([pair(1)])
    old, forever = service.completed(), service.completed(benchmarkId="bench-002")

    def purge(days: float) -> int:
        with service.resources.db.begin() as session:
            return purge_old_runs(session, utc_now() + timedelta(days=days))

    assert (purge(6.9), purge(7.1), purge(7.1)) == (0, 1, 0)
    kept = service.get("/benchmark-runs")["items"]
    assert [run["id"] for run in kept] == [forever["id"]]
    assert service.get("/kpi-history", benchmarkId=old["benchmarkId"])["items"] == []
