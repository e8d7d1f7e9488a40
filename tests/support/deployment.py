"""A service with real worker processes."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.llm import (
    EMBEDDER,
    JUDGE,
    KEY,
    ModelService,
    ReceivedLlmRequest,
    model_server,
)
from tests.support.processes import MASTER_KEY, Programs, programs, until
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader, varied_pairs

QUESTIONS = 40
# Five pages to collect and two shards to score, in the sizes of `tests.support.gated_source`.
TRACES = 105
# Without those of uploads, which the gated source copies.
COLLECTED_TRACES = """
    SELECT count(*) FROM collected_traces JOIN collections ON id = collection_id WHERE source = 'gated'
"""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A service with real workers: `programs` starts them, `database` reads the rows they wrote."""

    service: Service
    programs: Programs
    database: DatabaseReader

    def upload(
        self,
        run_name: str,
        *,
        tags: list[str] | None = None,
        tagged: int = -1,
        count: int = TRACES,
    ) -> None:
        """Upload traces of one run; the trace at index `tagged` has the tags.

        The inputs contain the run name, so that the metric cache has no value for them. There are
        only a few questions with one answer each, so that the judge is asked a few times only.
        """
        pairs = varied_pairs(count, tags=tags, tagged=tagged)
        traces = [
            {
                **trace,
                "input": f"{run_name}, question {number % QUESTIONS}",
                "output": pairs[number % QUESTIONS]["output"],
            }
            for number, trace in enumerate(pairs)
        ]
        self.service.upload(traces, run_name=run_name)

    def start(self, run_name: str, agent: str = "agent-001") -> str:
        return str(self.service.start_run(runName=run_name, agentId=agent)["id"])

    def benchmark(self) -> None:
        """Create a benchmark with the gate metric and the gated source.

        Only the workers have these plugins, so the API would refuse their names.
        """
        self.service.create_agent()
        self.service.create_benchmark(
            metrics=["ROUGE", "ACCURACY"],
            measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, ACCURACY.p95:0.5)"}],
        )
        self.database.execute(
            "UPDATE benchmarks SET source = 'gated', metrics = metrics || %s::jsonb",
            json.dumps([{"key": "GATE", "options": {}}]),
        )

    def add_judge_and_write_back(self) -> None:
        """Let the benchmark use an LLM judge and write all values back to the source."""
        judge = {"key": "LLM_JUDGE", "options": {"prompt": "{input}: {output}"}}
        self.database.execute(
            "UPDATE benchmarks SET metrics = metrics || %s::jsonb, write_back = %s::jsonb",
            json.dumps([judge]),
            json.dumps({"kpis": True, "metrics": True}),
        )

    def ended_run(self, run_id: str) -> JSON:
        """Wait for the end of the run in any final status."""

        def is_final() -> bool:
            return self.database.status(run_id) in ("COMPLETED", "FAILED", "CANCELLED")

        until(is_final, what="\n".join(program.log for program in self.programs.processes))
        return self.service.get(f"/benchmark-runs/{run_id}")

    def completed_run(self, run_id: str) -> JSON:
        run = self.ended_run(run_id)
        assert run["status"] == "COMPLETED", run
        return run

    def wait_for_write_back(self, run_id: str) -> None:
        """Wait until the source has all scores of the run."""

        def is_written() -> bool:
            query = "SELECT write_back ->> 'status' = 'WRITTEN' FROM benchmark_runs WHERE id = %s"
            return bool(self.database.value(query, run_id))

        until(is_written, what="\n".join(program.log for program in self.programs.processes))

    def is_job_done(self, name: str, run_id: str) -> bool:
        unfinished_jobs = """
            SELECT count(*) FROM procrastinate_jobs
            WHERE task_name = %s AND args ->> 'run_id' = %s AND status IN ('todo', 'doing')
        """
        return not self.database.value(unfinished_jobs, name, run_id)


@contextmanager
def deployed_service(service: Service, folder: Path) -> Iterator[Deployment]:
    """A service with its own worker processes, which end with the block."""
    db = service.resources.db
    addresses = {"DATABASE_URL": db.url}
    # Behind a pooler the queue needs a connection of its own:
    # LISTEN and advisory locks of a session.
    if db.direct_url != db.url:
        addresses["MOSAICO_DATABASE_DIRECT_URL"] = db.direct_url
    with (
        model_server() as models,
        programs(
            folder,
            MOSAICO_MASTER_KEY=MASTER_KEY,
            **addresses,
            **judge_settings(models),
        ) as started,
    ):
        deployment = Deployment(service, started, DatabaseReader(db.direct_url))
        deployment.benchmark()
        yield deployment


def judge_settings(models: ModelService) -> dict[str, str]:
    """The settings of a service that asks this server, which grades every question."""
    models.judge = _grade
    return {
        "MOSAICO_LLM_BASE_URL": models.url,
        "MOSAICO_LLM_API_KEY": KEY,
        "MOSAICO_LLM_MODEL": JUDGE,
        "MOSAICO_EMBEDDINGS_MODEL": EMBEDDER,
        # The guard against requests to internal addresses refuses
        # loopback, where the fake model listens.
        "MOSAICO_OUTBOUND_ALLOW": "127.0.0.0/8",
    }


def _grade(request: ReceivedLlmRequest) -> str:
    """A score that depends only on the question."""
    [question] = map(int, re.findall(r"question (\d+)", request.texts[-1]))
    return json.dumps({"reason": "as asked", "score": question / QUESTIONS})
