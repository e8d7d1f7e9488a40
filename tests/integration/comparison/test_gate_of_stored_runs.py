"""`mosaico gate` and `mosaico runs compare` on stored runs."""

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.comparison import stored_run_comparison
from mosaico.comparison.change_text import describe_change
from mosaico.kpis.verdict_types import ValueVerdict
from tests.integration.comparison.conftest import CompleteRun, gate, traces
from tests.support.service import Service
from tests.unit.ci.test_gate_pipelines import GITLAB, run_action, run_shell


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons are computed in this process, which has numpy anyway."""
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )


def address_of(service: Service) -> dict[str, str]:
    return {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }


@pytest.mark.usefixtures("at_once")
def test_explanations__name_the_kpi_and_appear_once(
    service: Service, complete_run: CompleteRun
) -> None:
    slow = {"id": "slow", "name": "slow", "formula": "LATENCY_MS.p95"}
    service.patch("/benchmarks/bench-001", {"metrics": ["ACCURACY", "LATENCY_MS"]})
    for name in ("slow", "late"):
        service.post("/benchmarks/bench-001/kpis", slow | {"id": name, "name": name})
    env = address_of(service)
    runs = [complete_run(name, traces([39]))["id"] for name in ("monday", "tuesday")]
    first = CliRunner().invoke(cli, ["runs", "show", runs[0]], env=env)
    assert first.stdout.count("First run: there is no earlier valid run") == 1
    for words in (["runs", "show", runs[1]], ["runs", "compare", *runs]):
        completed = CliRunner().invoke(cli, words, env=env)
        for name in ("slow", "late"):
            assert (
                f"{name}: It has no value: LATENCY_MS: values for 0 of 40 items" in completed.stdout
            )


@pytest.mark.usefixtures("at_once")
def test_gate__compares_with_the_mean_of_the_last_runs(
    service: Service, complete_run: CompleteRun
) -> None:
    service.patch("/benchmarks/bench-001", {"baseline": {"mode": "MEAN_OF_LAST", "runs": 2}})
    bad, good = (
        complete_run(name, traces(failed)) for name, failed in (("a", range(20)), ("b", ()))
    )
    run = complete_run("c", traces(range(10)))
    gate_result = gate("--run", run["id"], "--json", env=address_of(service))
    document = json.loads(gate_result.stdout)
    # The two before: 20/40 and 40/40, together 60/80; this one 30/40. The last alone would be 1.
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    [line] = document["checks"]
    assert (line["baselineValue"], line["value"], line["effect"]) == pytest.approx(
        (0.75, 0.75, 0.0)
    )
    stored = kpi["verdict"]
    names = ("baselineValue", "value", "effect", "low", "high")
    assert [line[name] for name in names] == [stored[name] for name in names]
    assert document["baselineRunIds"] == run["verdict"]["baseline"]["runIds"]
    assert document["baseline"] == f"the mean of {good['id']}, {bad['id']}"
    # Beside the first alone it has become better by ten items of forty.
    alone = gate("--run", run["id"], "--baseline", bad["id"], "--json", env=address_of(service))
    assert json.loads(alone.stdout)["checks"][0]["effect"] == pytest.approx(0.25)


@pytest.mark.usefixtures("at_once")
def test_gate__stored_runs_have_exit_codes_and_the_numbers_of_the_verdict(
    service: Service, complete_run: CompleteRun, tmp_path: Path
) -> None:
    env = address_of(service)

    def codes(*runs: Iterable[str]) -> list[int]:
        return [gate("--run", *words, env=env).exit_code for words in runs]

    first = complete_run("monday", traces(range(3)))
    worse = complete_run("tuesday", traces(range(15)))
    invalid = complete_run(
        "wednesday", [trace | {"outcome": "infra_error"} for trace in traces(())]
    )
    failed = service.complete_run(runName="nobody-uploaded-it")
    # The first has no baseline, which passes unless it must not; the second has the first.
    assert codes([first["id"]], [worse["id"]], [invalid["id"]], [failed["id"]]) == [0, 1, 3, 3]
    assert codes([first["id"], "--inconclusive", "fail"]) == [4]
    back = [first["id"], "--baseline", worse["id"], "--max-drop", "quality=0.1"]
    assert codes(back, [worse["id"], "--metrics", "ROUGE"], ["nobody"]) == [0, 2, 66]
    # Metrics in lower case and aliases, as for files; a name of no KPI and no metric is an error.
    assert codes([worse["id"], "--max-drop", "accuracy=0.1"]) == [1]
    assert codes([worse["id"], "--max-drop", "latency=0.1"]) == [2]
    running = service.start_run(runName="monday")
    assert codes([running["id"]]) == [2]
    require_same_numbers_everywhere(service, first["id"], worse["id"], tmp_path / "report.html")


@pytest.mark.usefixtures("at_once")
def test_compare_command__prints_the_comparison(
    service: Service, complete_run: CompleteRun
) -> None:
    env = address_of(service)
    first = complete_run("monday", traces([39]))
    worse = complete_run("tuesday", traces(range(10)))
    words = ["runs", "compare", first["id"], worse["id"]]
    completed = CliRunner().invoke(cli, words, env=env)
    assert completed.exit_code == 0, completed.output
    assert "quality fell from 0.975 to 0.750: −0.225 (95 % CI" in completed.stdout
    assert "ACCURACY: 10 items regressed, 1 improved." in completed.stdout
    assert "https://langfuse.example/t/0" in completed.stdout
    assert "tag:kind:sum\t10 of 10\t0 of 30" in completed.stdout
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"], env=env).stdout)
    assert document["flippedItems"]["regressions"] == 10


@pytest.mark.usefixtures("at_once")
def test_compare_command__takes_several_baselines_and_what_is_judged(
    service: Service, complete_run: CompleteRun
) -> None:
    env = address_of(service)
    monday, tuesday, worse = (
        complete_run(name, traces(range(wrong)))["id"]
        for name, wrong in (("monday", 0), ("tuesday", 4), ("wednesday", 14))
    )
    words = ["runs", "compare", monday, worse, "--base", tuesday, "--judge", "quality"]
    completed = CliRunner().invoke(cli, words, env=env)
    assert completed.exit_code == 0, completed.output
    assert "quality fell from 0.950 to 0.650" in completed.stdout
    assert f"/compare?base={monday}&base={tuesday}&run={worse}&judge=quality" in completed.stderr


def require_same_numbers_everywhere(service: Service, first: str, worse: str, report: Path) -> None:
    """The change of a value is the same in the gate, in commands, in the report and in the plot."""
    env = address_of(service)
    [kpi] = service.get(f"/benchmark-runs/{worse}/kpis")["items"]
    verdict = ValueVerdict.model_validate(kpi["verdict"])
    text = describe_change(verdict, verdict.scale)
    assert text is not None
    assert text.values == "0.925 → 0.625"
    assert text.change.startswith("−0.300 (95 % CI ")
    assert text.change in verdict.explanation
    commands = (
        ["gate", "--run", worse],
        ["gate", "--run", worse, "--format", "markdown"],
        ["runs", "show", worse],
        ["runs", "compare", first, worse],
        ["runs", "report", worse, str(report)],
    )
    for words in commands:
        content = CliRunner().invoke(cli, words, env=env).stdout
        if words[1] == "report":
            # The page shows the change and its interval in two columns.
            cells = re.findall(r"<td[^>]*>([^<]+)</td>", html.unescape(report.read_text()))
            assert {text.before, text.delta, text.bounds} <= {cell.strip() for cell in cells}
            continue
        # Markdown escapes the sign before a small p, and tables for programs have hyphens.
        assert text.change in content.replace("\\<", "<").replace("-0.", "−0."), words


@pytest.mark.usefixtures("at_once")
def test_gate__summary_links_the_comparison_with_the_ids_of_its_runs(
    service: Service, complete_run: CompleteRun, tmp_path: Path
) -> None:
    first, second = (
        complete_run(name, traces(range(n)))["id"] for name, n in (("a", 2), ("b", 20))
    )
    judged = ("--run", second, "--max-drop", "quality=0.05", "--format", "markdown")
    result = gate(*judged, env=address_of(service))
    assert result.exit_code == 1, result.output
    line = next(x for x in result.stdout.splitlines() if x.startswith("Page of the comparison"))
    assert f"candidate `{second}`" in line
    assert f"baseline `{first}`" in line
    address = re.search("<(.*?)>", line)
    assert address is not None
    page = service.client.get(address[1], headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "quality" in page.text

    # So do the pipelines, with the address of the service of their job.
    environment = address_of(service)
    job = {f"env.{name}": value for name, value in environment.items()}
    assert run_action(tmp_path, job, run=second) == 1
    url = environment["MOSAICO_URL"]
    link = f"Page of the comparison: <{url}/compare?base={first}&run={second}>"
    assert link in (tmp_path / "summary.md").read_text()
    [script] = GITLAB["script"]
    assert link in run_shell(script, tmp_path, GATE_RUN=second, **environment).stdout
