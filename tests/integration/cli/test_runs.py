"""`mosaico runs`: start, wait, watch, show."""

import json
import os
import pty
import signal
import subprocess
import threading
from itertools import pairwise
from typing import IO

import pytest

from tests.integration.cli.conftest import Shell
from tests.support.processes import LIVENESS_S
from tests.support.service import Service, pair


@pytest.fixture
def two_traces(service: Service) -> None:
    """An agent, a benchmark with one KPI, and two traces."""
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", "ACCURACY"],
        measures=[{"name": "quality", "formula": "AVERAGE(ROUGE, ACCURACY)", "thresholdMin": 0.5}],
    )
    # ROUGE-L of "a b" against "a b c d": P = 1, R = 1/2, F1 = 2/3. Means: 5/6 and 1/2.
    service.upload([pair(1), pair(2, output="a b")])


def test_start__prints_the_id_the_url_and_the_next_command(
    mosaico: Shell, service: Service, two_traces: None
) -> None:
    started = mosaico.ok("runs", "start", "bench-001", "agent-001", "--run-name", "monday")
    [run] = service.get("/benchmark-runs")["items"]
    assert started.stdout == f"{run['id']}\n"
    assert f"→ {mosaico.variables['MOSAICO_URL']}/runs/{run['id']}" in started.stderr
    assert f"next: `mosaico runs watch {run['id']}`" in started.stderr
    assert (run["status"], run["runName"]) == ("PENDING", "monday")


def test_start_wait__exits_0_for_a_completed_valid_run(
    mosaico: Shell, service: Service, two_traces: None, worker: None
) -> None:
    waited = mosaico.ok("runs", "start", "bench-001", "agent-001", "--wait")
    [run] = service.get("/benchmark-runs")["items"]
    assert waited.stdout == f"{run['id']}\n"  # progress is on stderr
    assert f"run {run['id']} COMPLETED VALID 2 traces in " in waited.stderr

    details_output = mosaico.ok("runs", "show", run["id"])
    details, metrics, kpis = details_output.stdout.split("\n\n")
    assert "status\tCOMPLETED" in details
    assert "validity\tVALID" in details
    row = metrics.splitlines()[1].split("\t")
    assert (row[:2], row[3:5]) == (["ROUGE", "0.833333"], ["", "2"])
    # The mean of 5/6 and 1/2; a first run has no verdict.
    row = kpis.splitlines()[1].split("\t")
    assert (row[:2], row[3:6]) == (["quality", "0.666667"], ["", "", "yes"])
    document = json.loads(mosaico.ok("runs", "show", run["id"], "--json").stdout)
    for part in ("metrics", "kpis", "evaluations"):
        assert document.pop(part) == service.get(f"/benchmark-runs/{run['id']}/{part}")["items"]
    assert document == run

    quiet = mosaico.ok("runs", "start", "bench-001", "agent-001", "--wait", "-q", "--json")
    assert json.loads(quiet.stdout)["status"] == "COMPLETED"
    assert "PENDING" not in quiet.stderr


def test_start_wait__exits_3_for_any_other_outcome(
    mosaico: Shell, service: Service, two_traces: None, worker: None
) -> None:
    wait = ("runs", "start", "bench-001", "agent-001", "--wait")
    failed = mosaico(*wait, "--run-name", "no-such-run")
    assert failed.exit_code == 3
    assert "FAILED" in failed.stderr
    assert "no-such-run" in failed.stderr  # why

    service.upload([pair(1), {**pair(2), "outcome": "infra_error"}], run_name="half-lost")
    invalid = mosaico(*wait, "--run-name", "half-lost")
    assert invalid.exit_code == 3
    assert "COMPLETED INVALID" in invalid.stderr
    assert "coverage is 50.0 %" in invalid.stderr

    assert mosaico(*wait, "--run-name", "half-lost", "--no-exit-status").exit_code == 0
    without_wait = mosaico("runs", "start", "bench-001", "agent-001", "--exit-status")
    assert (without_wait.exit_code, without_wait.stdout) == (2, "")
    assert "hint: add --wait" in without_wait.stderr


def test_watch_jsonl__prints_a_line_at_every_change(
    mosaico: Shell, service: Service, two_traces: None, worker: None
) -> None:
    run = service.start_run()
    lines = mosaico.ok("runs", "watch", run["id"], "--jsonl").stdout.splitlines()
    runs = [json.loads(line) for line in lines]
    assert runs[-1] == service.get(f"/benchmark-runs/{run['id']}")
    assert runs[-1]["status"] == "COMPLETED"
    assert all(before != after for before, after in pairwise(runs))


def test_cancel_and_retry__start_a_new_run(
    mosaico: Shell, service: Service, two_traces: None
) -> None:
    run = service.start_run()
    cancelled = mosaico.ok("runs", "cancel", run["id"])
    assert cancelled.stdout == ""
    assert f"`mosaico runs retry {run['id']}`" in cancelled.stderr
    again = mosaico("runs", "cancel", run["id"])
    assert (again.exit_code, again.stdout) == (73, "")
    assert "CANCELLED" in again.stderr

    retried = mosaico.ok("runs", "retry", run["id"]).stdout.strip()
    stored = service.get(f"/benchmark-runs/{retried}")
    assert (stored["retryOf"], stored["retryCount"]) == (run["id"], 1)


def _read_first_line(stream: IO[bytes]) -> bytes:
    """The first line of a command; empty if the command ends without one."""
    return stream.readline()


def test_watch__ctrl_c_detaches_and_the_run_continues(
    mosaico: Shell, service: Service, two_traces: None
) -> None:
    run = service.start_run()
    watching = mosaico.process(
        "runs", "watch", run["id"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert watching.stderr is not None
    # The signal would end the program itself before it watches.
    assert b"PENDING waits for a worker" in _read_first_line(watching.stderr)
    watching.send_signal(signal.SIGINT)
    stdout, stderr = watching.communicate(timeout=LIVENESS_S)
    assert (watching.returncode, stdout) == (130, b"")
    assert b"detached: the run continues" in stderr
    assert b"Traceback" not in stderr
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "PENDING"


class Screen:
    """A terminal of 80 columns that a command writes to."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.text = ""
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read)

    def watch(self) -> None:
        # The reader gets an end only when no process has the terminal open.
        os.close(self.slave)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        with self._grown:
            assert self._grown.wait_for(lambda: text in self.text, LIVENESS_S), self.text

    def close(self) -> str:
        self._reader.join(LIVENESS_S)
        os.close(self.master)
        return self.text

    def _read(self) -> None:
        while chunk := self._read_chunk():
            with self._grown:
                self.text += chunk.decode()
                self._grown.notify_all()

    def _read_chunk(self) -> bytes:
        try:
            return os.read(self.master, 4096)
        except OSError:  # the last writer has closed the terminal
            return b""


def test_watch__on_a_terminal_overwrites_one_line_and_second_ctrl_c_cancels(
    mosaico: Shell, service: Service, two_traces: None
) -> None:
    run = service.start_run()
    screen = Screen()
    shell = Shell(variables={**mosaico.variables, "TERM": "xterm", "COLUMNS": "80"})
    watching = shell.process(
        *("runs", "watch", run["id"]),
        stdin=screen.slave,
        stdout=screen.slave,
        stderr=screen.slave,
    )
    screen.watch()
    screen.wait_for("\rPENDING waits for a worker\x1b[K")
    watching.send_signal(signal.SIGINT)
    screen.wait_for("once more")
    watching.send_signal(signal.SIGINT)
    assert watching.wait(LIVENESS_S) == 3
    assert "is cancelled" in screen.close()
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "CANCELLED"


def test_show_and_rescore__print_the_verdict_and_start_a_run(
    mosaico: Shell, service: Service, two_traces: None
) -> None:
    run = service.complete_run()
    output = mosaico.ok("runs", "show", run["id"]).stdout
    assert "95 %" in output
    assert "First run: there is no earlier valid run" in output
    again = mosaico.ok("runs", "rescore", run["id"]).stdout.strip()
    assert service.get(f"/benchmark-runs/{again}")["rescoreOf"] == run["id"]


def test_run_id__may_be_latest_or_its_beginning(
    mosaico: Shell, service: Service, two_traces: None
) -> None:
    nothing = mosaico("runs", "show", "latest")
    assert (nothing.exit_code, nothing.stderr) == (
        2,
        "error: there is no latest yet: the list is empty\n",
    )
    first, second = (
        mosaico.ok("runs", "start", "bench-001", "agent-001").stdout.strip() for _ in range(2)
    )
    assert f"id\t{second}\n" in mosaico.ok("runs", "show", "latest").stdout
    # The first digits of a UUIDv7 are its time: how many are the same depends on the hour.
    beginning = first[: next(n for n in range(36) if first[n] != second[n])]
    ambiguous = mosaico("runs", "show", beginning)
    assert (ambiguous.exit_code, ambiguous.stderr.splitlines()[0]) == (
        2,
        f"error: 2 IDs begin with {beginning}",
    )
    mosaico.ok("runs", "cancel", first[: len(beginning) + 1])
    assert service.get(f"/benchmark-runs/{first}")["status"] == "CANCELLED"
    unknown = mosaico("runs", "show", "00000000-0000")
    assert "no run has the ID '00000000-0000'\n" in unknown.stderr
