"""What one run costs in statements, whatever its traces and metrics are."""

from pathlib import Path

from tests.support.postgres import server_below
from tests.support.service import Service
from tests.support.statement_log import StatementLog, logged_statements
from tests.support.stored import varied_pairs

# The goal, without those that begin and end transactions; 57 were counted.
STATEMENTS_PER_RUN = 60
TRACES = 50
# Look-ups of the API key, heartbeats, polls and checks of idle connections: a slow machine takes more of them.
BY_THE_SECOND = (
    "SELECT api_keys.",
    "UPDATE procrastinate_workers SET last_heartbeat",
    "SELECT id from procrastinate_jobs",
    ";",
)


def test_run__of_fifty_traces_takes_few_statements(
    service: Service, superuser_url: str, run_folder: Path
) -> None:
    """The second and the third run of a benchmark are compared with earlier ones."""
    measures = [{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, ACCURACY.p95:0.5)"}]
    service.create_agent()
    service.create_benchmark(measures=measures)
    for number in range(4):
        # Other inputs in each upload: equal traces would be taken over instead of collected.
        traces = ({**trace, "input": f"run {number}"} for trace in varied_pairs(TRACES))
        service.upload(traces, run_name=f"run-{number}")
    service.complete_run(runName="run-0")
    database = service.resources.db.engine.url.database
    assert database is not None
    folder = server_below(run_folder).status().log_dir
    # Sessions of the pool are older than the log: statements of them would not be in it.
    service.resources.db.dispose()

    with logged_statements(superuser_url, database, folder) as log:
        of_one_run = _count(service, log, "run-1")
        of_two_runs = _count(service, log, "run-2", "run-3")
        # A run that fails takes few statements.
        statuses = {run["status"] for run in service.list_items("/benchmark-runs")}
        assert statuses == {"COMPLETED"}

    # The worker itself takes a number of statements, too.
    assert 0 < len(of_two_runs) - len(of_one_run) <= STATEMENTS_PER_RUN, "\n".join(of_one_run)


def _count(service: Service, log: StatementLog, *run_names: str) -> list[str]:
    """The statements from the start of the runs until their ends."""
    log.read()
    for name in run_names:
        service.start_run(runName=name)
    service.work()
    return [
        statement for statement in log.read().statements if not statement.startswith(BY_THE_SECOND)
    ]
