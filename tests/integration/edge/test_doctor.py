"""`mosaico doctor`: each check with a real counterpart, the good one and the bad one."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico import doctor
from mosaico.cli import cli
from mosaico.core.migrations import upgrade
from mosaico.core.resources import Resources
from mosaico.core.settings import Settings
from mosaico.doctor import CheckFailed
from mosaico.jobs.worker_process import WorkerPresence
from mosaico.startup import schema_remedy
from tests.support.processes import start_command
from tests.support.service import Service
from tests.support.stored import DatabaseReader
from tests.support.waiting import LIVENESS_S

CHECKS = [
    "versions", "time zone", "disk", "port", "mail server", "database", "migrations", "keys", "clock",
    "worker", "Langfuse", "KPIs",
]  # fmt: skip


def assert_fails(check: Callable[[], object], finding: str, remedy: str) -> None:
    with pytest.raises(CheckFailed, match=finding) as caught:
        check()
    assert remedy in caught.value.remedy


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_database_url: str
) -> dict[str, str]:
    """The variables of a machine with this database."""
    monkeypatch.chdir(tmp_path)
    variables = {
        "DATABASE_URL": fresh_database_url,
        "MOSAICO_DATA_DIR": str(tmp_path),
        "MOSAICO_PORT": str(free_port()),
        "MOSAICO_MASTER_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.fixture
def present_worker(fresh_database_url: str) -> Iterator[None]:
    """The connection by which a worker is known to be alive."""
    presence = WorkerPresence(fresh_database_url, connect_timeout_s=LIVENESS_S)
    with asyncio.Runner() as runner:
        runner.run(presence.execute(7, "SELECT 1"))
        yield
        runner.run(presence.release())


@pytest.mark.usefixtures("environment", "service", "present_worker")
def test_doctor__installation_in_use_is_ok() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    items = json.loads(result.stdout)["items"]
    assert [item["name"] for item in items] == CHECKS
    assert [item for item in items if not item["ok"]] == []
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.usefixtures("environment")
def test_doctor__failed_check_has_a_remedy_and_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAICO_PUBLIC_URL", "https://mosaico.example")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://nobody:x@127.0.0.1:{free_port()}/none")
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 1
    [line] = [line for line in result.stdout.splitlines() if line.startswith("FAILED\tdatabase")]
    assert line.endswith("start the server, or correct DATABASE_URL")
    assert "x@127" not in result.stdout
    assert "not checked\tworker\tfix the check database first" in result.stdout
    assert result.stderr == "page: https://mosaico.example/system\n"


def test_check_kpi_directions__names_contradictions(service: Service) -> None:
    service.create_benchmark(measures=[{"name": "speed", "formula": "LATENCY_MS.p95"}])
    assert doctor.check_kpi_directions(service.resources).startswith("1 KPIs")
    words = {"name": "words", "formula": "OUTPUT_TOKENS", "direction": "HIGHER_IS_BETTER"}
    service.post("/benchmarks/bench-001/kpis", words)
    finding = doctor.check_kpi_directions(service.resources)
    assert "KPI words of benchmark bench-001" in finding
    assert "speed" not in finding


def test_check_database__without_the_embedded_server_names_the_command(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    check = partial(doctor.check_database, settings)
    assert_fails(check, "does not run", "`mosaico db start`")


def test_check_disk__needs_free_space(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert "GiB free at" in doctor.check_disk(folder, 1)
    assert_fails(partial(doctor.check_disk, folder, 2**80), "GiB free", "MOSAICO_DATA_DIR")


def test_check_port__is_free_ours_or_of_another_program(service: Service) -> None:
    port = service.client.base_url.port or 0
    assert doctor.check_port(Settings(host="0.0.0.0", port=port)).startswith("the service answers")
    assert "nothing listens" in doctor.check_port(Settings(port=free_port()))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # It accepts connections and never answers.
        stranger = partial(doctor.check_port, Settings(port=listener.getsockname()[1]), 0.2)
        assert_fails(stranger, "another program listens", "MOSAICO_PORT")


def test_check_keys__need_an_admin(service_resources: Resources) -> None:
    assert_fails(partial(doctor.check_keys, service_resources), "no valid API key", "ADMIN_KEY")


def test_check_clock__compares_with_the_database(service_resources: Resources) -> None:
    assert doctor.check_clock(service_resources, timedelta(hours=1)).endswith(" s")
    # Any two clocks differ by more than a negative limit.
    ahead = partial(doctor.check_clock, service_resources, timedelta(seconds=-1))
    assert_fails(ahead, "differ by", "NTP")


def test_check_worker__needs_one(service: Service) -> None:
    assert_fails(partial(doctor.check_worker, service.resources), "no worker", "`mosaico worker`")


def test_check_langfuse__asks_the_server_of_each_agent_with_keys(service: Service) -> None:
    service.create_agent()
    assert doctor.check_langfuse_servers(service.resources) == "no agent has Langfuse keys"
    service.post(
        "/agents",
        {
            "id": "bot",
            "name": "Bot",
            "langfuseUrl": f"http://127.0.0.1:{free_port()}",
            "langfusePublicKey": "pk",
            "langfuseSecretKey": "sk",
        },
    )
    check = partial(doctor.check_langfuse_servers, service.resources)
    assert_fails(check, "agent bot at http://127.0.0.1", "mosaico agents update bot")


@pytest.mark.parametrize("name", ["versions", "time zone"])
def test_diagnose__facts_of_the_machine(tmp_path: Path, name: str) -> None:
    diagnoses = {
        diagnosis.name: diagnosis for diagnosis in doctor.diagnose(Settings(data_dir=tmp_path))
    }
    assert diagnoses[name].ok
    assert ("mosaico" in diagnoses[name].finding) == (name == "versions")


def test_start__refuses_a_schema_of_an_earlier_version_in_development(
    environment: dict[str, str], tmp_path: Path
) -> None:
    upgrade(environment["DATABASE_URL"])
    rows = DatabaseReader(environment["DATABASE_URL"])
    # As a database of a development version before this column was.
    rows.execute("ALTER TABLE benchmark_runs DROP COLUMN rescore_of CASCADE")
    for words in (["serve"], ["worker"]):
        # In processes of their own: they handle signals until they end.
        command = start_command(words, tmp_path, MOSAICO_PORT=str(free_port()))
        assert command.wait_for_exit() == 75
        assert "error: an earlier development version created the tables" in command.log
        assert "hint: name an empty database in DATABASE_URL" in command.log
    embedded = schema_remedy(Settings(data_dir=tmp_path / "mosaico", database_url=None))
    assert f"`export MOSAICO_DATA_DIR={tmp_path}/mosaico-2`" in embedded


def test_doctor__names_a_column_that_a_schema_in_development_lacks(
    environment: dict[str, str],
) -> None:
    upgrade(environment["DATABASE_URL"])
    rows = DatabaseReader(environment["DATABASE_URL"])
    rows.execute("ALTER TABLE benchmark_runs DROP COLUMN rescore_of CASCADE")
    result = CliRunner().invoke(cli, ["doctor"])
    assert "FAILED\tmigrations\tan earlier development version created the tables" in result.stdout
    assert "the column benchmark_runs.rescore_of is missing" in result.stdout
    assert "not checked\tkeys\tfix the check migrations first" in result.stdout
