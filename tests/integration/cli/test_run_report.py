"""`mosaico runs report`."""

import re
from pathlib import Path

from tests.integration.cli.conftest import Shell
from tests.support.service import Service, pair


def without_times(page: str) -> str:
    """The page without the second at which it was written."""
    return re.sub("<time.*?</time>", "", page).strip()


def test_report__is_written_as_one_page(mosaico: Shell, service: Service, tmp_path: Path) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE", "unit": "points"}]
    )
    rule = {"name": "quality falls", "benchmarkId": "bench-001", "kpi": "quality"}
    service.post("/alert-configs", {**rule, "condition": "PERCENTAGE_DROP", "threshold": 10})
    service.upload([pair(1), pair(2)], run_name="monday")
    service.complete_run(runName="monday")
    # No word of the expected answer: the mean of ROUGE falls from 1 to 0.5.
    worse = [pair(1), pair(2, output="nothing of it", url="https://langfuse.example/t/2")]
    service.upload(worse, run_name="tuesday")
    run = service.complete_run(runName="tuesday")
    file = tmp_path / "run.html"
    report = mosaico.ok("runs", "report", run["id"], str(file))
    page = file.read_text()
    assert f"is written to {file}" in report.stderr
    assert re.search("<title>.+, bench-001 · MOSAICO</title>", page)
    assert re.search(r"<b>0\.50* points</b>", page)
    assert "<svg" in page
    assert "quality fell by 50\N{NO-BREAK SPACE}% to 0.5" in page
    worst = page[page.index("Worst of 2 traces by ROUGE") :]
    assert f'<a href="/runs/{run["id"]}/traces/t-2">t-2</a>' in worst
    assert worst.index("t-2") < worst.index("t-1")
    again = mosaico.ok("runs", "report", run["id"]).stdout
    assert without_times(again) == without_times(page)
    assert " ago" not in page
    answer = service.client.get(f"/api/v1/benchmark-runs/{run['id']}/report")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "quality fell by 50\N{NO-BREAK SPACE}% to 0.5" in answer.text
    service.expect_problem(404, "GET", "/benchmark-runs/gone/report")
