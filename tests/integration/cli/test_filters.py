"""Filters of lists: an ID that does not exist is an error, and an empty list says why it is empty."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Shell
from tests.support.service import Service, pair

UNKNOWN = {
    "benchmark": "the benchmark 'nope' does not exist",
    "agent": "the agent 'nope' does not exist",
    "rule": "no alert rule has the ID 'nope'",
    "run": "no run has the ID 'nope'",
    "schedule": "the schedule 'nope' does not exist",
}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, "benchmark") for command in (
            "runs list", "history list", "history export", "schedules list", "alerts list",
            "alerts rules list", "incidents list",
        )),
        *((command, "agent") for command in (
            "runs list", "history list", "history export", "schedules list", "alerts list",
            "alerts rules list", "incidents list", "datasets list",
        )),
        ("runs list", "schedule"),
        ("alerts list", "rule"),
        ("alerts list", "run"),
        ("incidents list", "rule"),
    ],
)  # fmt: skip
def test_filter__an_unknown_id_is_an_error(mosaico: Shell, command: str, option: str) -> None:
    refused = mosaico(*command.split(), f"--{option}", "nope")
    assert (refused.exit_code, refused.stdout) == (66, "")
    error, hint = refused.stderr.splitlines()
    assert error == f"error: {UNKNOWN[option]}"
    assert hint.startswith("hint: `mosaico ")


def test_filter__an_unknown_id_beside_a_known_one_is_a_warning(
    mosaico: Shell, service: Service
) -> None:
    service.create_agent()
    service.create_benchmark()
    service.upload([pair(1)])
    run = service.complete_run()
    listed = mosaico.ok(
        *("runs", "list", "--benchmark", "bench-001", "--benchmark", "nope", "--fields", "id")
    )
    assert listed.stdout == f"id\n{run['id']}\n"
    page = f"page: {mosaico.variables['MOSAICO_URL']}/runs?benchmark=bench-001&benchmark=nope\n"
    assert listed.stderr == f"warning: the benchmark 'nope' does not exist\n{page}"


def test_empty_list__says_that_nothing_matches_or_that_nothing_exists(
    mosaico: Shell, service: Service, tmp_path: Path
) -> None:
    url = mosaico.variables["MOSAICO_URL"]
    assert mosaico.ok("runs", "list").stderr == f"there is no run yet\npage: {url}/runs\n"
    service.create_agent()
    listed = mosaico.ok("runs", "list", "--agent", "agent-001", "--sort", "-created")
    assert (listed.stdout.count("\n"), listed.stderr) == (
        1,
        f"no run matches the filters\npage: {url}/runs?agent=agent-001&sort=-created\n",
    )
    assert mosaico.ok("alerts", "list", "--state", "firing").stderr == (
        f"no alert matches the filters\npage: {url}/alert-history?state=FIRING\n"
    )
    refused = mosaico("history", "export", "rows.csv", "--benchmark", "nope")
    assert refused.exit_code == 66
    assert not (tmp_path / "rows.csv").exists()
