"""`mosaico runs report`."""

from pathlib import Path

import pytest

from app.reporting import report_data
from tests.integration.cli.conftest import Shell
from tests.support.service import Service, pair


def test_report__is_written_as_one_page(mosaico: Shell, service: Service, tmp_path: Path) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE", "unit": "points"}]
    )
    rule = {"name": "quality falls", "benchmarkId": "bench-001", "kpi": "quality"}
    service.post("/alert-configs", {**rule, "condition": "PERCENTAGE_DROP", "threshold": 10})
    service.upload([pair(1), pair(2)], run_name="monday")
    service.complete_run(runName="monday")
    worse = [pair(1), pair(2, output="nothing of it", url="https://langfuse.example/t/2")]
    service.upload(worse, run_name="tuesday")
    run = service.complete_run(runName="tuesday")
    file = tmp_path / "run.html"
    report = mosaico.ok("runs", "report", run["id"], "--html", str(file))
    page = file.read_text()
    assert f"is written to {file}" in report.stderr
    assert "<h1>bench-001: agent-001, tuesday</h1>" in page
    assert "<td>0.5 points</td>" in page
    assert "<svg" in page
    assert "quality fell by 50 % to 0.5" in page
    assert '<a href="https://langfuse.example/t/2" rel="noreferrer">t-2</a>' in page
    worst = page[page.index("Worst of 2 traces by ROUGE") :]
    assert worst.index("t-2") < worst.index("t-1")
    assert mosaico.ok("runs", "report", run["id"], "--html").stdout.strip() == page.strip()
    answer = service.client.get(f"/api/v1/benchmark-runs/{run['id']}/report")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for part in ("<h1>bench-001: agent-001, tuesday</h1>", "quality fell by 50 % to 0.5", "t-2"):
        assert part in answer.text
    service.expect_problem(404, "GET", "/benchmark-runs/gone/report")


def test_report__history_of_an_old_run_ends_with_that_run(
    mosaico: Shell, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1)])
    _, second, _ = [service.complete_run() for _ in range(3)]
    monkeypatch.setattr(report_data, "RUNS_BACK", 2)
    page = mosaico.ok("runs", "report", second["id"], "--html").stdout
    assert "<title>2 runs, from 1 to 1, the last 1</title>" in page


def test_report__run_without_results_has_a_page(mosaico: Shell, service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    run = service.complete_run(runName="nowhere")
    page = mosaico.ok("runs", "report", run["id"], "--html").stdout
    assert f"FAILED: {run['errorCode']}" in page
    assert "RUN_FAILED" in page


def test_report__requires_a_format_and_an_existing_run(mosaico: Shell, service: Service) -> None:
    assert mosaico("runs", "report", "none").exit_code == 2
    assert mosaico("runs", "report", "none", "--html").exit_code == 66
