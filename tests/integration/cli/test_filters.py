"""Filters of lists: an ID that does not exist is an error, and an empty list says why it is empty."""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.integration.cli.conftest import Shell
from tests.support.every_page import write_every_page
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


def test_filter__rows_of_a_deleted_schedule_are_listed(mosaico: Shell, service: Service) -> None:
    service.create_agent()
    service.create_benchmark()
    schedule = service.post(
        "/schedule-configs",
        {
            "name": "nightly",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "0 0 2 * * *",
        },
    )
    service.post(f"/schedule-configs/{schedule['id']}/trigger")
    mosaico.ok("schedules", "delete", schedule["id"], "--yes")
    listed = mosaico.ok("runs", "list", "--schedule", schedule["id"], "--fields", "status")
    assert (listed.stdout, listed.stderr) == (
        "status\nPENDING\n",
        f"page: {mosaico.variables['MOSAICO_URL']}/runs?schedule={schedule['id']}\n",
    )


def test_list__prints_the_page_with_its_filters(mosaico: Shell, service: Service) -> None:
    """The page accepts each of them, and shows the rows of the command."""
    with service.resources.db.begin() as session:
        write_every_page(session)
    url = mosaico.variables["MOSAICO_URL"]
    since = "2026-01-02T03:04:05+02:00"
    for command, page in (
        ("runs list --trigger MANUAL --validity VALID --verdict REGRESSED --sort verdict", "/runs?triggeredBy=MANUAL&validity=VALID&verdict=REGRESSED&sort=verdict"),
        (f"runs list --agent sql --agent billing --from {since}", "/runs?agent=sql&agent=billing&from=2026-01-02T03%3A04%3A05%2B02%3A00"),
        ("alerts list --agent billing --benchmark support --run run-billing-support-0 --rule rule-1 --state firing --severity critical --sort name", "/alert-history?benchmark=support&agent=billing&run=run-billing-support-0&rule=rule-1&state=FIRING&severity=CRITICAL&sort=name"),
        ("alerts list --silence silence-1 --text 100%", "/alert-history?silence=silence-1&text=100%25"),
        ("alerts rules list --agent billing", "/alerts?agent=billing"),
        ("alerts silences list --active", "/inbox?tab=silenced&active=true"),
        ("alerts silences list --ended", "/inbox?tab=silenced&ended=true"),
        ("incidents list --kpi support-pass --state open", "/incidents?kpi=support-pass&state=OPEN"),
        ("schedules list --benchmark support", "/schedules?benchmark=support"),
        ("datasets list --name support", "/datasets?name=support"),
        ("agents list --archived", "/agents?archived=true"),
        ("benchmarks list --archived", "/benchmarks?archived=true"),
        ("audit --action create_agent --resource agents", "/audit?action=create_agent&resourceType=agents"),
        ("notify deliveries list --status delivered", "/deliveries?status=DELIVERED"),
        ("notify endpoints list --disabled", "/endpoints?disabled=true"),
        ("inbox list --unread", "/inbox?tab=open"),
        ("history list --kpi support-pass --agent billing", "/benchmarks/support/kpis/support-pass?agent=billing"),
    ):  # fmt: skip
        listed = mosaico.ok(*command.split())
        assert listed.stderr.endswith(f"page: {url}{page}\n"), command
        response = service.client.get(page, headers={"Accept": "text/html"})
        assert response.status_code == 200, page
        [first, *_] = [row.get("id", "") for row in json.loads(mosaico.ok(*command.split(), "--json").stdout)["items"]] or [""]  # fmt: skip
        assert str(first) in unquote(response.text), command


def test_links__have_the_public_url_when_another_setting_is_wrong(mosaico: Shell) -> None:
    mosaico.variables["MOSAICO_PUBLIC_URL"] = "https://mosaico.example.org/"
    for wrong in (
        ("MOSAICO_PORT", "8080"),
        ("MOSAICO_PORT", "many"),
        ("MOSAICO_SUMMARY_AT", "late"),
    ):
        mosaico.variables.update([wrong])
        assert mosaico.ok("agents", "list").stderr.endswith(
            "page: https://mosaico.example.org/agents\n"
        )
    mosaico.variables["MOSAICO_PUBLIC_URL"] = "no address"
    assert mosaico.ok("agents", "list").stderr.endswith(
        f"page: {mosaico.variables['MOSAICO_URL']}/agents\n"
    )
