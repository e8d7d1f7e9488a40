"""docs/backup.md with a running service: a backup meanwhile, and the move to another server."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.jobs.process_pool import ProcessPool
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.postgres import SharedServer, drop_database, make_database
from tests.support.processes import Program, Programs, until
from tests.support.serve import ServiceProcesses, running_processes, start_serve
from tests.support.service import JSON, Service, pair

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backup.md"
# The service starts once, for both tests.
pytestmark = pytest.mark.xdist_group("backups")
HISTORY = ("/agents", "/benchmarks", "/kpi-history", "/schedule-configs/nightly/fires")


@pytest.fixture(scope="module")
def module_processes(
    tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    with running_processes(tmp_path_factory.mktemp("backups"), metric_pool) as processes:
        yield processes


@pytest.fixture
def service_processes(module_processes: ServiceProcesses) -> ServiceProcesses:
    """The service runs; it is restarted when an earlier test stopped it."""
    if not module_processes.serve.is_running:
        module_processes.restart()
    return module_processes


@pytest.fixture
def external_url(postgres_server: SharedServer, worker_id: str) -> Iterator[str]:
    name = f"moved_{worker_id}"
    drop_database(postgres_server.url, name)
    yield make_database(postgres_server.url, name)
    drop_database(postgres_server.url, name)


def run(programs: Programs, *words: str, **environment: str) -> Program:
    done = programs.start(*words, **environment)
    assert done.wait_for_exit() == 0, done.log
    return done


def commands_of_the_move() -> list[str]:
    section = PAGE.read_text().partition("## Move to your own Postgres")[2]
    match = re.search(r"^```console\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert match is not None
    return [line.removeprefix("$ ") for line in match[1].splitlines()]


def history(service: Service) -> dict[str, list[JSON]]:
    """What must be the same after a move, with the end of each run."""
    runs = service.list_items("/benchmark-runs", benchmarkId="bench-002")
    return {
        "runs": [service.get(f"/benchmark-runs/{run['id']}") for run in runs],
        **{path: service.list_items(path) for path in HISTORY},
    }


def test_restore__into_a_new_data_folder_starts_with_a_new_admin_key(
    service_processes: ServiceProcesses, tmp_path: Path
) -> None:
    programs = service_processes.programs
    service_processes.deployment.service.create_agent("agent-003", langfuseSecretKey="sk-1")
    run(programs, "backup", "a.backup")
    service_processes.serve.send(signal.SIGTERM)
    assert service_processes.serve.wait_for_exit() == 0

    folder = tmp_path / "new"
    refused = programs.start("restore", "a.backup", MOSAICO_DATA_DIR=str(folder))
    assert refused.wait_for_exit() == 78
    assert str(folder / "master.key") in refused.log
    folder.mkdir(mode=0o700)
    os.link(service_processes.data_dir / "master.key", folder / "master.key")
    run(programs, "restore", "a.backup", MOSAICO_DATA_DIR=str(folder))
    programs_of_folder = Programs(
        programs.folder,
        {**programs.environment, "MOSAICO_DATA_DIR": str(folder)},
        programs.processes,
    )
    serve = start_serve(programs_of_folder, service_processes.port)
    listed = run(programs_of_folder, "agents", "list", MOSAICO_PORT=str(service_processes.port))
    assert "agent-003" in listed.log
    serve.send(signal.SIGTERM)
    assert serve.wait_for_exit() == 0
    EmbeddedPostgres(folder).stop()


def test_move__keeps_history_secrets_keys_and_schedules(
    service_processes: ServiceProcesses, external_url: str
) -> None:
    service, programs = service_processes.deployment.service, service_processes.programs
    service.create_agent("agent-002", langfusePublicKey="pk-1", langfuseSecretKey="sk-1")
    service.create_benchmark(
        "bench-002", metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}]
    )
    service.upload([pair(number) for number in range(4)])
    plan = {"benchmarkId": "bench-002", "agentId": "agent-001"}
    service_processes.deployment.completed_run(service.start_run(**plan)["id"])
    nightly = {"id": "nightly", "name": "nightly", "cronExpression": "*/2 * * * * *", **plan}
    # Each due time while no scheduler runs has a row of its own, which says so.
    service.post("/schedule-configs", {**nightly, "misfirePolicy": "SKIP"})
    fires = "/schedule-configs/nightly/fires"
    until(lambda: len(service.list_items(fires)) >= 2)
    # While everything runs.
    run(programs, "backup", "running.backup")
    run(programs, "restore", "running.backup", "--check")

    service.patch("/schedule-configs/nightly", {"cronExpression": "0 0 2 * * *"})
    for started in service.list_items("/benchmark-runs", benchmarkId="bench-002"):
        service_processes.deployment.ended_run(started["id"])
    before = history(service)
    service_processes.serve.send(signal.SIGTERM)
    assert service_processes.serve.wait_for_exit() == 0

    environment: dict[str, str] = {}
    values = {
        "DATABASE_URL": external_url,
        "MOSAICO_MASTER_KEY_FILE": str(service_processes.data_dir / "master.key"),
    }
    *commands, last = commands_of_the_move()
    for command in commands:
        program, *words = command.split()
        if program == "export":
            name = words[0].partition("=")[0]
            environment[name] = values[name]
        else:
            assert program == "mosaico"
            run(programs, *words, **environment)
    assert last == "mosaico serve"
    assert not EmbeddedPostgres(service_processes.data_dir).status().running

    port = str(service_processes.port)
    moved = programs.start("serve", MOSAICO_PORT=port, **environment)
    moved.wait_for_output("MOSAICO runs at")
    assert not EmbeddedPostgres(service_processes.data_dir).status().running
    # The same key of the API, with the same client.
    assert history(service) == before
    assert "missing" not in run(programs, "secrets", "status", **environment).log
    # The restored service works: another run, by the same plan.
    started = service.start_run(**plan)
    until(lambda: service.get(f"/benchmark-runs/{started['id']}")["status"] == "COMPLETED")
    assert service.list_items(fires) == before[fires]
    moved.send(signal.SIGTERM)
    assert moved.wait_for_exit() == 0
