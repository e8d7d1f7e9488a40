"""Benchmarks whose traces a bash evaluation produces: through the API, without any model key."""

import json
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from mosaico.core.clock import utc_now
from mosaico.core.resources import Resources
from mosaico.runs.retention import purge_expired_runs
from tests.support.bash_runs import (
    PRICE,
    SCRIPT,
    SCRIPTED_MODEL,
    TASKS,
    benchmark,
    figures,
    results,
    with_datasets,
    with_keys,
    write_lines,
)
from tests.support.service import JSON, Service, pointers, run_mosaico
from tests.support.stored import DatabaseReader, age_purged_runs

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")


@pytest.fixture
def service_resources(service_resources: Resources, dataset_folder: Path) -> Resources:
    return with_datasets(service_resources, dataset_folder)


def test_bash_run__has_metrics_like_any_other_run(service: Service) -> None:
    """Task good: 2 of 2 points, 4 calls of which 1 failed. Task half: 1 of 4 points, 1 call."""
    benchmark(
        service,
        SCRIPTED_MODEL,
        measures=[
            {"name": "pass rate", "formula": "TASK_PASSED"},
            {
                "name": "overall rate",
                "formula": 'SCORE["TASK_POINTS"].sum / SCORE["TASK_POINTS_MAX"].sum',
            },
        ],
    )
    run = service.complete_run()
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 2, "VALID"), run
    run_figures = figures(service, run)
    assert run_figures["TASK_SCORE"]["mean"] == (1 + 1 / 4) / 2
    assert run_figures["TASK_PASSED"]["mean"] == 1 / 2
    assert run_figures["NATURAL_STOP"]["mean"] == 1
    assert run_figures["TOOL_CALL_SUCCESS_RATE"]["mean"] == 4 / 5
    assert run_figures["TURNS"]["sum"] == 3 + 2
    kpis = {kpi["name"]: kpi["value"] for kpi in service.list_items("/kpi-history")}
    assert kpis == {"pass rate": 1 / 2, "overall rate": (2 + 1) / (2 + 4)}
    half = results(service, run)["half#0"]
    assert half["itemId"] == "half"
    assert half["values"]["TASK_SCORE"] == 1 / 4


def trace(service: Service, run: JSON, trace_id: str) -> JSON:
    return service.get(f"/benchmark-runs/{run['id']}/traces/{quote(trace_id, safe='')}")


def test_bash_run__trace_shows_what_the_model_did(service: Service) -> None:
    benchmark(service, SCRIPTED_MODEL)
    run = service.complete_run()
    good = trace(service, run, "good#0")
    assert good["values"]["TASK_PASSED"] == 1
    assert (good["turns"], len(good["toolCalls"]), good["output"]) == (3, 4, "Written.")
    steps = good["transcript"]["steps"]
    assert [step.get("role") or step["arguments"]["commands"] for step in steps] == [
        "system", "user", "assistant", "echo a > /a", "assistant", "cat /a", "cat /none", "true", "assistant",
    ]  # fmt: skip
    failed = steps[6]
    assert (failed["exitCode"], failed["isError"], failed["stdout"]) == (1, True, "")
    assert "none" in failed["stderr"]
    missing = service.expect_problem(404, "GET", f"/benchmark-runs/{run['id']}/traces/nope")
    assert missing["type"].endswith("trace-not-found")


def test_trace_commands__print_what_the_model_did(service: Service) -> None:
    benchmark(service, SCRIPTED_MODEL)
    run = service.complete_run()
    listed = run_mosaico(service, "runs", "traces", run["id"], "--format", "json")
    assert listed.exit_code == 0, listed.output
    assert {item["traceId"] for item in json.loads(listed.stdout)["items"]} == {"good#0", "half#0"}
    assert "TASK_SCORE 0.25" in run_mosaico(service, "runs", "traces", run["id"]).stdout
    result = run_mosaico(service, "runs", "trace", run["id"], "good#0")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "    $ cat /none" in lines
    assert any(line.startswith("tool bash, exit code 1, ") for line in lines)
    assert lines[-1] == "    Written."
    document = run_mosaico(service, "runs", "trace", run["id"], "good#0", "--format", "json")
    assert json.loads(document.stdout) == trace(service, run, "good#0")
    missing = run_mosaico(service, "runs", "trace", run["id"], "nope")
    assert missing.exit_code != 0
    assert "nope" in missing.stderr


def test_view_command__writes_a_page_of_one_run_or_of_two(service: Service, tmp_path: Path) -> None:
    benchmark(service, SCRIPTED_MODEL)
    run, other = service.complete_run()["id"], service.complete_run()["id"]
    page = tmp_path / "page.html"
    single = run_mosaico(service, "runs", "view", run, "--file", page)
    assert single.exit_code == 0, single.output
    html = page.read_text()
    assert html.count('<details class="attempt') == 2
    assert "$ cat /none" in html
    assert '<div class="pair">' not in html
    assert f'/runs/{run}">page of the run</a>' in html
    assert run_mosaico(service, "runs", "view", run, other, "--file", page).exit_code == 0
    assert page.read_text().count('<div class="pair">') == 2


def test_bash_run__secrets_of_the_service_are_masked_in_traces(
    service: Service, dataset_folder: Path
) -> None:
    turns = {"id": "half", "turns": [["echo key-of-o"]], "answer": "It is key-of-o."}
    write_lines(dataset_folder / "script.jsonl", [SCRIPT[0], turns])
    benchmark(service, SCRIPTED_MODEL)
    keyed = with_keys(service)
    run = keyed.complete_run()
    half = trace(keyed, run, "half#0")
    assert half["output"] == "It is ***."
    assert half["transcript"]["steps"][3]["stdout"].strip() == "***"
    assert "key-of-o" not in json.dumps(half)


def test_bash_run__transcripts_are_deleted_after_keep_days(service: Service) -> None:
    rows = DatabaseReader(service.resources.db.url)
    benchmark(service, SCRIPTED_MODEL, keepDays=7)
    service.complete_run()
    for days, purged_runs in ((6, 0), (8, 1)):
        with service.resources.db.begin() as session:
            assert purge_expired_runs(session, utc_now() + timedelta(days=days)) == purged_runs
    service.work()
    assert rows.value("SELECT count(*) FROM trace_transcripts") == 2
    # The deletion is a job of the next day, because a purge can be undone until then.
    age_purged_runs(service.resources.db)
    service.work()
    assert rows.value("SELECT count(*) FROM trace_transcripts") == 0


def test_harness_settings__invalid_field_is_refused(service: Service) -> None:
    wrong: list[tuple[JSON | None, str]] = [
        ({"provider": "clever", "model": "m"}, "/harness/provider"),
        ({"provider": "openai"}, "/harness/model"),
        ({**SCRIPTED_MODEL, "apiKey": "sk-1"}, "/harness/apiKey"),
        ({**SCRIPTED_MODEL, "trials": 0}, "/harness/trials"),
        ({**SCRIPTED_MODEL, "runUsd": 5}, "/harness"),
        ({**SCRIPTED_MODEL, "runUsd": 5, "price": PRICE, "judgeModel": "another"}, "/harness"),
        ({**SCRIPTED_MODEL, "baseUrl": "file:///etc/passwd"}, "/harness/baseUrl"),
        # Addresses at which clouds give credentials to their machines.
        ({**SCRIPTED_MODEL, "baseUrl": "http://169.254.169.254/v1"}, "/harness/baseUrl"),
        ({**SCRIPTED_MODEL, "baseUrl": "http://metadata.google.internal/v1"}, "/harness/baseUrl"),
        ({"provider": "anthropic", "model": "claude-opus-5", "temperature": 0}, "/harness"),
        ({"provider": "openai", "model": "gpt-5.6-sol", "reasoningEffort": "minimal"}, "/harness"),
        (None, "/harness"),
    ]
    for harness, pointer in wrong:
        body = {"datasetRef": "nightly/tasks.jsonl", "source": "harness", "harness": harness}
        assert pointers(service.expect_problem(422, "POST", "/benchmarks", body)) == [pointer]


def test_bash_run__invalid_dataset_fails_with_lines(service: Service, dataset_folder: Path) -> None:
    broken = {"id": "x", "category": "c", "prompt": "p", "expectations": [{"check": "no_such:1"}]}
    write_lines(dataset_folder / "broken.jsonl", [TASKS[0], broken])
    benchmark(service, SCRIPTED_MODEL, datasetRef="broken.jsonl")
    run = service.complete_run()
    assert run["errorCode"] == "INVALID_DATASET"
    assert "line 2" in run["errorMessage"]
