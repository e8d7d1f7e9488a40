"""`mosaico doctor`: each check with a real counterpart, the good one and the bad one; made by a running service itself."""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico import doctor
from mosaico.cli import cli
from mosaico.core.resources import Resources
from mosaico.core.settings import Settings
from mosaico.core.smtp import parse_smtp_url
from mosaico.jobs.worker_process import WorkerPresence
from mosaico.overview import diagnosis
from mosaico.overview.diagnosis import CheckFailed
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

CHECKS = [
    "versions", "service", "time zone", "disk", "mail server", "database", "migrations", "keys", "clock",
    "worker", "heartbeat", "Langfuse", "KPIs",
]  # fmt: skip


LANGFUSE_AGENT = {
    "id": "bot",
    "name": "Bot",
    "langfusePublicKey": "pk",
    "langfuseSecretKey": "sk",
}


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


@pytest.fixture
def reached_service(
    service: Service, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Service:
    """A running service, and an environment that has its address and key and none of its settings."""
    for name in environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MOSAICO_URL", str(service.client.base_url).rstrip("/"))
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("MOSAICO_API_KEY", key)
    return service


@pytest.mark.usefixtures("reached_service", "present_worker")
def test_doctor__a_running_service_checks_itself() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    items = json.loads(result.stdout)["items"]
    assert [item["name"] for item in items] == CHECKS
    assert [item for item in items if not item["ok"]] == []


def test_doctor__has_the_settings_of_the_service_and_not_its_own(
    reached_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service may call this machine, and this environment may not; it has another mail server, too."""
    reached_service.post(
        "/agents", {**LANGFUSE_AGENT, "langfuseUrl": f"http://127.0.0.1:{free_port()}"}
    )
    monkeypatch.setenv("MOSAICO_SMTP_URL", "smtp://mail.example")
    monkeypatch.setenv("MOSAICO_SMTP_FROM", "mosaico@mail.example")
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    items = {item["name"]: item for item in json.loads(result.stdout)["items"]}
    assert "agent bot at http://127.0.0.1" in items["Langfuse"]["finding"]
    assert "not allowed" not in items["Langfuse"]["finding"]
    assert "mail.example" not in items["mail server"]["finding"]
    shown = CliRunner().invoke(cli, ["doctor"])
    assert f"{str(reached_service.client.base_url).rstrip('/')}/system" in shown.stderr


def test_doctor__without_an_admin_key_says_which_one_it_needs(
    reached_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = reached_service.post("/keys", {"name": "reader", "role": "read"})["token"]
    monkeypatch.setenv("MOSAICO_API_KEY", key)
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    assert result.exit_code == 1
    [failed] = [item for item in json.loads(result.stdout)["items"] if not item["ok"]]
    assert "MOSAICO_API_KEY" in failed["remedy"]
    assert "HTTP 403" in failed["finding"]


def test_diagnose_service__names_the_mail_server_of_the_service(
    service_resources: Resources,
) -> None:
    url = f"smtp://user:pass-word@127.0.0.1:{free_port()}"
    smtp = parse_smtp_url(url, "mosaico@mail.example", require_tls=False)
    items = {
        item.name: item
        for item in diagnosis.diagnose_service(replace(service_resources, smtp=smtp))
    }
    assert not items["mail server"].ok
    assert "127.0.0.1" in items["mail server"].finding
    assert "pass-word" not in str(items)


@pytest.mark.usefixtures("environment", "service", "present_worker")
def test_doctor__installation_that_is_not_reached_is_checked_from_here() -> None:
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
    assert diagnosis.check_kpi_directions(service.resources).startswith("1 KPIs")
    words = {"name": "words", "formula": "OUTPUT_TOKENS", "direction": "HIGHER_IS_BETTER"}
    service.post("/benchmarks/bench-001/kpis", words)
    finding = diagnosis.check_kpi_directions(service.resources)
    assert "KPI words of benchmark bench-001" in finding
    assert "speed" not in finding


def test_check_database__without_the_embedded_server_names_the_command(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    check = partial(doctor.check_database, settings)
    assert_fails(check, "does not run", "`mosaico db start`")


def test_check_disk__needs_free_space(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert "GiB free at" in diagnosis.check_disk(folder, 1)
    assert_fails(partial(diagnosis.check_disk, folder, 2**80), "GiB free", "MOSAICO_DATA_DIR")


def test_check_service__is_there_not_there_or_another_program(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAICO_URL", str(service.client.base_url))
    assert doctor.check_service().startswith("the service answers")
    monkeypatch.setenv("MOSAICO_URL", f"http://127.0.0.1:{free_port()}")
    assert "nothing listens" in doctor.check_service()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # It accepts connections and never answers.
        monkeypatch.setenv("MOSAICO_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert_fails(partial(doctor.check_service, 0.2), "another program listens", "MOSAICO_PORT")


def test_check_disk__needs_a_folder_that_this_user_can_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        assert_fails(
            partial(diagnosis.check_disk, folder, 1), "cannot write to", "MOSAICO_DATA_DIR"
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser writes everywhere")
def test_check_disk__needs_the_permission_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert_fails(partial(diagnosis.check_disk, tmp_path, 1), "cannot write to", "chown")


def test_check_keys__need_an_admin(service_resources: Resources) -> None:
    assert_fails(partial(diagnosis.check_keys, service_resources), "no valid API key", "ADMIN_KEY")


def test_check_clock__compares_with_the_database(service_resources: Resources) -> None:
    assert diagnosis.check_clock(service_resources, timedelta(hours=1)).endswith(" s")
    # Any two clocks differ by more than a negative limit.
    ahead = partial(diagnosis.check_clock, service_resources, timedelta(seconds=-1))
    assert_fails(ahead, "differ by", "NTP")


def test_check_worker__needs_one(service: Service) -> None:
    assert_fails(
        partial(diagnosis.check_worker, service.resources), "no worker", "`mosaico worker`"
    )


def test_check_langfuse__asks_the_server_of_each_agent_with_keys(service: Service) -> None:
    service.create_agent()
    assert diagnosis.check_langfuse_servers(service.resources) == "no agent has Langfuse keys"
    service.post("/agents", {**LANGFUSE_AGENT, "langfuseUrl": f"http://127.0.0.1:{free_port()}"})
    check = partial(diagnosis.check_langfuse_servers, service.resources)
    assert_fails(check, "agent bot at http://127.0.0.1", "mosaico agents update bot")


@pytest.mark.parametrize("name", ["versions", "time zone"])
def test_diagnose__facts_of_the_machine(tmp_path: Path, name: str) -> None:
    diagnoses = {
        diagnosis.name: diagnosis for diagnosis in doctor.diagnose(Settings(data_dir=tmp_path))
    }
    assert diagnoses[name].ok
    assert ("mosaico" in diagnoses[name].finding) == (name == "versions")
