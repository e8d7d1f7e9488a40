"""A service with real workers, and what a test does with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import MASTER_KEY, Programs, programs, until
from tests.support.service import JSON, Service
from tests.support.stored import Rows, varied_pairs

TRACES = 2_100  # five pages to collect, two shards to score


@dataclass(frozen=True, slots=True)
class House:
    """A service with real workers; `programs` starts them, `rows` shows what they wrote."""

    service: Service
    programs: Programs
    rows: Rows

    def upload(self, run_name: str, *, tags: list[str] | None = None, count: int = TRACES) -> None:
        """Traces that no other run has: nothing of what was measured there is used again."""
        traces = [{**trace, "input": run_name} for trace in varied_pairs(count, tags=tags)]
        self.service.upload(traces, run_name=run_name)

    def start(self, run_name: str) -> str:
        return str(self.service.start(runName=run_name)["id"])

    def benchmark(self) -> None:
        """A benchmark with the gates in it, which only the workers know."""
        self.service.agent()
        self.service.benchmark(
            metrics=["ROUGE", "ACCURACY"],
            measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, ACCURACY.p95:0.5)"}],
        )
        self.rows.do(
            """UPDATE benchmarks SET source = 'gated', metrics = '["ROUGE", "ACCURACY", "GATE"]'"""
        )

    def ended(self, run_id: str) -> JSON:
        """The run once it has ended, however it did."""

        def is_final() -> bool:
            return self.rows.status(run_id) in ("COMPLETED", "FAILED", "CANCELLED")

        until(is_final, what="\n".join(program.log for program in self.programs.started))
        return self.service.get(f"/benchmark-runs/{run_id}")

    def completed(self, run_id: str) -> JSON:
        run = self.ended(run_id)
        assert run["status"] == "COMPLETED", run
        return run

    def job_is_done(self, name: str, run_id: str) -> bool:
        left = """
            SELECT count(*) FROM procrastinate_jobs
            WHERE task_name = %s AND args ->> 'run_id' = %s AND status IN ('todo', 'doing')
        """
        return not self.rows.value(left, name, run_id)


@contextmanager
def house_of(service: Service, folder: Path) -> Iterator[House]:
    """Workers of their own for a service; all have ended afterwards."""
    url = service.resources.db.url
    with programs(folder, DATABASE_URL=url, MOSAICO_MASTER_KEY=MASTER_KEY) as started:
        house = House(service, started, Rows(url))
        house.benchmark()
        yield house
