"""From a folder to nightly runs with an alert: `init`, `apply`, and nights whose answers get worse, for each thing that
`init` finds.
"""

import dataclasses
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.resources import Resources
from tests.integration.cli.conftest import Shell
from tests.support.langfuse import run_fake_langfuse
from tests.support.otlp import PROTOBUF, export, span
from tests.support.service import JSON, Service

ROOT = Path(__file__).resolve().parents[3]
ITEMS = 60
HOUR_NS = 3600 * 10**9
# What `init` reads of the environment.
READ = ("LANGFUSE_", "OTEL_", "SLACK_")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is also that of the harness."""
    path = tmp_path / "support"
    path.mkdir()
    monkeypatch.chdir(path)
    for name in list(os.environ):
        if name.startswith(READ) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    return path


@pytest.fixture
def service_resources(service_resources: Resources, folder: Path) -> Resources:
    """A service that was started as `init` says."""
    options = {
        "harness_dir": str(folder),
        "agent_commands": str(folder / "agent-commands.json"),
    }
    return dataclasses.replace(service_resources, options={**service_resources.options, **options})


@pytest.fixture
def shell(mosaico: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Commands with the address of the service; the test may set more of the environment."""
    for name, value in mosaico.variables.items():
        monkeypatch.setenv(name, value)
    return mosaico


def set_up(shell: Shell) -> None:
    """The commands of a user: init and apply. The second apply has nothing to do."""
    first = shell.ok("init")
    assert "next: mosaico apply mosaico.yaml" in first.stderr
    applied = shell.ok("apply", "mosaico.yaml")
    assert "nightly" in applied.output
    again = shell.ok("apply", "mosaico.yaml")
    assert "nothing to do" in again.output


def night(service: Service) -> JSON:
    """What happens at 03:00: the schedule starts a run, whose jobs are done."""
    [schedule] = service.list_items("/schedule-configs")
    fire = service.post(f"/schedule-configs/{schedule['id']}/trigger")
    service.work()
    run = service.get(f"/benchmark-runs/{fire['runId']}")
    assert (run["status"], run["validity"]) == ("COMPLETED", "VALID"), run
    return run


def require_alert(service: Service, run: JSON) -> None:
    """The run regressed, and the inbox has the alert."""
    assert run["verdict"]["verdict"] == "REGRESSED", run["verdict"]
    states = [alert["state"] for alert in service.list_items("/alerts")]
    assert states == ["FIRING"]
    assert service.list_items("/notifications")


def write_answers(path: Path, wrong: int) -> None:
    rows = [f"q{n},yes,{'no' if n < wrong else 'yes'}\n" for n in range(ITEMS)]
    path.write_text("id,expected,output\n" + "".join(rows))


def test_files__uploads_of_two_nights(service: Service, shell: Shell, folder: Path) -> None:
    write_answers(folder / "last-week.csv", 2)
    os.utime(folder / "last-week.csv", (1_700_000_000, 1_700_000_000))
    write_answers(folder / "today.csv", 2)
    set_up(shell)
    upload = ("datasets", "upload", "today.csv", "--name", "support", "--run-name")
    assert "mosaico runs start support-nightly support" in shell.ok(*upload, "monday").stderr
    night(service)
    write_answers(folder / "today.csv", 40)
    shell.ok(*upload, "tuesday")
    require_alert(service, night(service))
    # The file on the machine gets the verdict of the night.
    write_answers(folder / "monday.csv", 2)
    compared = shell.ok("compare", "monday.csv", "today.csv", "--no-html")
    assert compared.stdout.startswith("REGRESSED: pass rate")


def test_langfuse__runs_of_the_dataset(
    service: Service, shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_fake_langfuse() as langfuse:
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", langfuse.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", langfuse.secret_key)
        monkeypatch.setenv("LANGFUSE_BASE_URL", langfuse.url)
        common: Any = {"items": ITEMS, "expected_of": lambda _: "yes"}
        langfuse.experiment(run="monday", output_of=lambda _: "yes", **common)
        set_up(shell)
        [agent] = service.list_items("/agents")
        assert (agent["langfuseUrl"], agent["secretSet"]) == (langfuse.url, True)
        first = night(service)
        assert first["tracesTotal"] == ITEMS
        langfuse.experiment(run="tuesday", output_of=lambda n: "no" if n < 40 else "yes", **common)
        require_alert(service, night(service))


def send_day(service: Service, day: int, failed: int) -> None:
    """The spans of one day of the agent and of another one, after those of the day before."""
    start_ns = time.time_ns() - 2 * HOUR_NS
    for number, name in enumerate(("support-bot", "other")):
        spans = [
            span(
                trace=f"{day}{number}{n:03x}",
                start_ns=start_ns + n,
                failed="the model gave no answer" if n < failed else None,
                input__value="?",
                output__value="!",
            )
            for n in range(ITEMS)
        ]
        body = export(spans, {"service.name": name})
        assert service.client.post("/v1/traces", content=body, headers=PROTOBUF).is_success
    with service.resources.db.begin() as session:
        # A run waits for half a minute without spans: they came an hour ago.
        session.connection().exec_driver_sql(
            "UPDATE otel_traces SET last_received_at = last_received_at - interval '1 hour'"
        )


def end_day(service: Service) -> None:
    """The traces so far become those of the day before."""
    with service.resources.db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE otel_traces SET occurred_at = occurred_at - interval '1 day'"
        )


def test_opentelemetry__spans_of_the_service(
    service: Service, shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "support-bot")
    set_up(shell)
    send_day(service, 1, failed=2)
    # Those of the other service are not read.
    assert night(service)["tracesTotal"] == ITEMS
    end_day(service)
    send_day(service, 2, failed=40)
    second = night(service)
    assert second["tracesTotal"] == ITEMS
    require_alert(service, second)


def test_second_project__shares_the_service_with_the_first(
    service: Service, shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("support", "billing"):
        path = folder.parent / name
        path.mkdir(exist_ok=True)
        monkeypatch.chdir(path)
        monkeypatch.setenv("OTEL_SERVICE_NAME", f"{name}-bot")
        set_up(shell)
    benchmarks = {benchmark["id"] for benchmark in service.list_items("/benchmarks")}
    assert benchmarks == {"support-nightly", "billing-nightly"}


AGENT = """\
import pathlib, sys
wrong = int(pathlib.Path(__file__).with_name("wrong.txt").read_text())
print("no" if int(sys.argv[1]) < wrong else "yes")
"""


def test_command__agent_of_the_folder(service: Service, shell: Shell, folder: Path) -> None:
    rows = [f"q{n},{n},yes\n" for n in range(ITEMS)]
    (folder / "questions.csv").write_text("id,question,answer\n" + "".join(rows))
    (folder / "bot.py").write_text(AGENT)
    (folder / "wrong.txt").write_text("2")
    command = f"{shlex.quote(sys.executable)} -I -S bot.py {{input}}"
    shell.ok("init", "--agent-command", command)
    assert json.loads((folder / "agent-commands.json").read_text())["bot"]["command"] == command
    shell.ok("apply", "mosaico.yaml")
    night(service)
    (folder / "wrong.txt").write_text("40")
    require_alert(service, night(service))


def test_bash__tasks_of_the_folder(service: Service, shell: Shell, folder: Path) -> None:
    for name in ("tasks.jsonl", "script.jsonl"):
        shutil.copyfile(ROOT / "demo" / "bash" / name, folder / name)
    set_up(shell)
    first = night(service)
    assert first["tracesTotal"] == 38
    # The model forgets what it knew.
    script = [json.loads(line) for line in (folder / "script.jsonl").read_text().splitlines()]
    lines = [json.dumps({"id": part["id"], "turns": [["true"]], "answer": ""}) for part in script]
    (folder / "script.jsonl").write_text("\n".join(lines))
    require_alert(service, night(service))


def test_mcp__file_of_the_folder(
    service: Service, shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server of the file is installed beside Python.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    shutil.copyfile(ROOT / "demo" / "bench" / "tool_time.yaml", folder / "tool_time.yaml")
    set_up(shell)
    run = night(service)
    assert run["tracesTotal"] == 2
    [kpi, *_] = service.list_items("/kpi-history")
    assert (kpi["name"], kpi["value"]) == ("pass rate", 1.0)
