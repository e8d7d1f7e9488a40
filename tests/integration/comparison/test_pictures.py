"""Charts of stored runs, by route and by command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.comparison import stored_run_comparison
from tests.integration.comparison.conftest import CompleteRun, traces
from tests.support.service import JSON, Service


@pytest.fixture
def two_runs(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> list[JSON]:
    """A good complete_run, then one on which ten items fall; compared in this process."""
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    return [complete_run("monday", traces([39])), complete_run("tuesday", traces(range(10)))]


def test_plot__draws_trend_changes_and_items(service: Service, two_runs: list[JSON]) -> None:
    base, worse = (run["id"] for run in two_runs)
    path = f"/benchmark-runs/{worse}/plot"
    trend = service.send("GET", path)
    assert trend.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in trend.headers["content-security-policy"]
    assert "quality of Pelican in bench-001" in trend.text
    assert "runs: 2, the last at 0.750, regressed" in trend.text
    first = service.send("GET", f"/benchmark-runs/{base}/plot")
    assert "runs: 1, the last at 0.975, not compared" in first.text
    changes = service.send("GET", path, params={"against": base})
    assert "quality: 0.975 → 0.750, −0.225 (95 % CI" in changes.text
    items = service.send("GET", path, params={"against": base, "metric": "ACCURACY"})
    assert "40 items: 10 worse, 1 better, mean −0.225" in items.text


def test_plot_command__writes_a_file(
    service: Service, two_runs: list[JSON], tmp_path: Path
) -> None:
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    file = tmp_path / "run.svg"
    words = ["runs", "plot", two_runs[1]["id"]]
    completed = CliRunner().invoke(cli, [*words, str(file)], env=env)
    assert (completed.exit_code, completed.stdout) == (0, "")
    assert file.read_text(encoding="utf-8").startswith("<svg")
    assert CliRunner().invoke(cli, words, env=env).stdout == file.read_text(encoding="utf-8")
    refused = CliRunner().invoke(cli, [*words, str(tmp_path / "run.png")], env=env)
    assert (refused.exit_code, "a plot is written as SVG only" in refused.stderr) == (2, True)
    assert not (tmp_path / "run.png").exists()
