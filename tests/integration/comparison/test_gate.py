"""`mosaico gate`: the exit code that a CI server reads."""

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.comparison import stored_run_comparison
from app.comparison.change_text import describe_change
from app.kpis.verdict_types import ValueVerdict
from tests.integration.comparison.conftest import CompleteRun, traces
from tests.support.service import Service, ndjson


def gate(*words: str | Path, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["gate", *map(str, words)], env=env or {})


@pytest.fixture
def files(tmp_path: Path, plugins: None) -> Path:
    """A folder of trace files with known outcomes."""
    for name, failed in (("good", range(3)), ("bad", range(15)), ("like", range(1, 4))):
        (tmp_path / f"{name}.jsonl").write_bytes(ndjson(traces(failed)))
    incomplete = [trace | {"outcome": "infra_error"} for trace in traces(())]
    (tmp_path / "lost.jsonl").write_bytes(ndjson(incomplete))
    (tmp_path / "none.jsonl").write_bytes(b"")
    # Without the key, an answer was not recorded; null would be an agent that answered nothing.
    without_output = [
        {key: value for key, value in trace.items() if key != "output"} for trace in traces(())
    ]
    (tmp_path / "silent.jsonl").write_bytes(ndjson(without_output))
    good = traces(range(3))
    (tmp_path / "one.jsonl").write_bytes(ndjson(good[:1]))
    (tmp_path / "twice.jsonl").write_bytes(ndjson([*good, good[0]]))
    other_items = [trace | {"itemId": f"other-{trace['itemId']}"} for trace in good]
    (tmp_path / "others.jsonl").write_bytes(ndjson(other_items))
    nan = ndjson(good).replace(b'"output"', b'"latencyMs": NaN, "output"', 1)
    (tmp_path / "nan.jsonl").write_bytes(nan)
    return tmp_path


def of_files(folder: Path, run: str, *words: str) -> Result:
    return gate(
        "--run", folder / run, "--baseline", folder / "good.jsonl", "--metrics", "ACCURACY", *words
    )


def test_gate__metrics_have_options(files: Path) -> None:
    files_of_run = ("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl")
    judged = gate(*files_of_run, "--metrics", "ROUGE:useStemmer=true,BLEU", "--json")
    assert [check["name"] for check in json.loads(judged.stdout)["checks"]] == ["ROUGE", "BLEU"]
    wrong = gate(*files_of_run, "--metrics", "ROUGE:stem")
    assert (wrong.exit_code, "'stem' does not have the form OPTION=VALUE" in wrong.stderr) == (
        2,
        True,
    )


def test_gate__config_is_a_benchmark(files: Path) -> None:
    files_of_run = ("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl")
    config = files / "benchmark.json"
    config.write_text(
        json.dumps(
            {
                "name": "nightly",
                "metrics": ["ROUGE", {"key": "BLEU", "options": {}}],
                "measures": [{"name": "quality", "formula": "AVERAGE(ROUGE, BLEU)"}],
            }
        )
    )
    judged = gate(*files_of_run, "--config", config, "--json")
    assert [check["name"] for check in json.loads(judged.stdout)["checks"]] == ["quality"]
    assert judged.exit_code == 1
    both = gate(*files_of_run, "--config", config, "--metrics", "ROUGE")
    assert (both.exit_code, "cannot be used together" in both.stderr) == (2, True)
    config.write_text('{"measures": ["quality"]}')
    assert "a measure has `name` and `formula`" in gate(*files_of_run, "--config", config).stderr


@pytest.mark.parametrize(
    ("run", "words", "code"),
    [
        ("bad.jsonl", (), 1),
        # Of 40 items three fail, then three others: nothing is proved, which passes by default.
        ("like.jsonl", (), 0),
        ("like.jsonl", ("--inconclusive", "fail"), 4),
        ("like.jsonl", ("--inconclusive", "pass"), 0),
        # Identical runs pass, asked as a metric and as a KPI.
        ("good.jsonl", ("--inconclusive", "fail"), 0),
        ("good.jsonl", ("--inconclusive", "fail", "--kpi", "quality=ACCURACY * 1"), 0),
        ("like.jsonl", ("--max-drop", "ACCURACY=0.5"), 0),
        ("like.jsonl", ("--non-inferiority-margin", "ACCURACY=0.2"), 0),
        ("like.jsonl", ("--non-inferiority-margin", "ACCURACY=0.05"), 4),
        ("good.jsonl", ("--non-inferiority-margin", "ACCURACY=0.05"), 4),
        # What was requested and is not measured never passes.
        ("good.jsonl", ("--metrics", "ACCURACY,TASK_PASSED"), 3),
        ("good.jsonl", ("--metrics", "TASK_PASSED"), 3),
        ("good.jsonl", ("--metrics", "NO_SUCH_METRIC"), 2),
        ("lost.jsonl", (), 3),
        ("none.jsonl", (), 2),
        ("like.jsonl", ("--max-drop", "SPEED=0.5"), 2),
        ("like.jsonl", ("--max-drop", "ACCURACY=0.1", "--max-drop", "ACCURACY=0.5"), 2),
        ("like.jsonl", ("--kpi", "a=ACCURACY", "--kpi", "a=ROUGE"), 2),
        ("like.jsonl", ("--metrics", ","), 2),
        # An alias, and a metric that the traces do not have: requested and not measured.
        ("like.jsonl", ("--max-drop", "latency=0.1"), 3),
        ("like.jsonl", ("--metrics", 'score["Other"]'), 3),
        ("like.jsonl", ("--max-drop", "ACCURACY=-1"), 2),
        ("like.jsonl", ("--kpi", "quality=ACCURACY +"), 2),
        ("like.jsonl", ("--kpi", "quality=NO_SUCH_METRIC"), 2),
        ("like.jsonl", ("--metrics", "LLM_JUDGE"), 2),
        ("like.jsonl", ("--max-drop", "ACCURACY"), 2),
        ("nowhere.jsonl", (), 2),
        # One item proves nothing, nor do 40 others of which as many fail.
        ("one.jsonl", ("--inconclusive", "fail"), 4),
        ("others.jsonl", ("--inconclusive", "fail"), 4),
        # What is no file of traces is no outcome of a gate.
        ("twice.jsonl", (), 65),
        ("nan.jsonl", (), 65),
    ],
)
def test_gate__exit_code_is_the_outcome(
    files: Path, run: str, words: tuple[str, ...], code: int
) -> None:
    result = of_files(files, run, *words)
    assert result.exit_code == code, result.output


def test_gate__kpi_without_a_value_never_passes(files: Path) -> None:
    good = traces(range(3))
    (files / "scored.jsonl").write_bytes(
        ndjson([{**trace, "scores": {"x": 0.5}} for trace in good])
    )
    words = ("--kpi", 'quality=SCORE["x"]', "--inconclusive", "pass")
    without_value = gate(
        "--run", files / "good.jsonl", "--baseline", files / "scored.jsonl", *words
    )
    assert (without_value.exit_code, "it has no value" in without_value.output.lower()) == (3, True)
    new = gate("--run", files / "scored.jsonl", "--baseline", files / "good.jsonl", *words)
    assert (new.exit_code, "no item has a value in both runs" in new.output) == (3, True)


@pytest.mark.parametrize("run", ["good.jsonl", "bad.jsonl"])
def test_gate__requested_metric_without_values_is_named(files: Path, run: str) -> None:
    for names in ("ROUGE,TASK_PASSED", "TASK_PASSED"):
        result = gate("--run", files / run, "--baseline", files / "good.jsonl", "--metrics", names)
        assert "TASK_PASSED: no item has a value in both runs." in result.stdout


def test_gate__two_files_are_judged_by_one_primary_metric(files: Path) -> None:
    result = gate("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl", "--json")
    document = json.loads(result.stdout)
    [check] = document["checks"]
    # One decision and one p-value: the other metrics are copies of it and are not adjusted for.
    assert (check["name"], check["outcome"], check["pAdjusted"]) == (
        "ACCURACY", "REGRESSION", check["p"],
    )  # fmt: skip
    assert "ROUGE" in {figure["name"] for figure in document["information"]}
    assert document["exitCode"] == result.exit_code == 1


def test_gate__requested_metrics_are_judged_together(files: Path) -> None:
    names = ("--metrics", "ACCURACY,ROUGE", "--json")
    result = gate("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl", *names)
    checks = json.loads(result.stdout)["checks"]
    assert [check["outcome"] for check in checks] == ["REGRESSION", "REGRESSION"]
    for check in checks:
        # The decision follows the interval that is shown as adjusted.
        assert check["lowAdjusted"] <= check["low"] < check["high"] <= check["highAdjusted"] < 0
        assert check["p"] <= check["pAdjusted"] < 0.05


def called(succeeded: int) -> list[dict[str, object]]:
    """30 traces with ten tool calls each, of which so many succeeded, and two labels."""
    calls = [{"name": "search", "ok": call < succeeded} for call in range(10)]
    labels = ["yes", "no"]
    return [
        {
            "traceId": f"t-{item}",
            "itemId": f"i-{item}",
            "expectedOutput": labels[item % 2],
            "output": labels[item % 2 if item % 10 < succeeded else 0],
            "toolCalls": calls[item % 3 :],
        }
        for item in range(30)
    ]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        # Of 270 calls 240 succeeded, then 90: a trace with more calls has more weight.
        (("--metrics", "tool_call_success_rate"), (240 / 270, 90 / 270)),
        (("--kpi", "calls=100 * TOOL_CALL_SUCCESS_RATE"), (24_000 / 270, 9_000 / 270)),
        # All 15 yes are given; of 15 no 12, then 6 are given, the others as yes. F1 is that of labels
        # (2 · right / (expected + given)), and not that of words.
        (
            ("--metrics", '[{"key": "F1_SCORE", "options": {"labels": "macro"}}]'),
            ((30 / 33 + 24 / 27) / 2, (30 / 39 + 12 / 21) / 2),
        ),
    ],
)
def test_gate__files_are_judged_by_metrics_of_the_whole_run(
    tmp_path: Path, plugins: None, words: tuple[str, str], values: tuple[float, float]
) -> None:
    for name, succeeded in (("before", 9), ("after", 4)):
        (tmp_path / f"{name}.jsonl").write_bytes(ndjson(called(succeeded)))
    files = ("--run", tmp_path / "after.jsonl", "--baseline", tmp_path / "before.jsonl")
    result = gate(*files, *words, "--json")
    [check] = json.loads(result.stdout)["checks"]
    assert (check["outcome"], result.exit_code) == ("REGRESSION", 1)
    assert (check["baselineValue"], check["value"]) == pytest.approx(values)


def test_gate__lost_texts_are_invalid_and_absent_ones_are_not_needed(files: Path) -> None:
    words = ("--run", files / "silent.jsonl", "--baseline", files / "good.jsonl")
    textless = gate(*words)
    assert (textless.exit_code, "coverage is 0.0 %" in textless.stdout) == (3, True)
    # Traces with scores and without any text: no metric of texts applies.
    scored = [
        {"traceId": f"t-{item}", "itemId": f"i-{item}", "scores": {"TASK_PASSED": item % 3 / 2}}
        for item in range(30)
    ]
    (files / "scored.jsonl").write_bytes(ndjson(scored))
    same = gate("--run", files / "scored.jsonl", "--baseline", files / "scored.jsonl")
    assert (same.exit_code, "TASK_PASSED\tPASS" in same.stdout) == (0, True), same.output


def test_gate__inconclusive_pass_says_so(files: Path) -> None:
    words = ("--run", files / "like.jsonl", "--baseline", files / "good.jsonl")
    passed = gate(*words)
    assert (passed.exit_code, "With --inconclusive fail the exit code is 4" in passed.stdout) == (
        0,
        True,
    )
    failed = gate(*words, "--inconclusive", "fail")
    assert (failed.exit_code, "Passes:" in failed.stdout) == (4, False)


def test_gate__file_needs_a_baseline_file(files: Path) -> None:
    assert gate("--run", files / "bad.jsonl").exit_code == 2


@pytest.mark.parametrize("read", ["good.jsonl", "bad.jsonl"])
def test_gate__report_does_not_overwrite_its_input(files: Path, read: str) -> None:
    before = (files / read).read_bytes()
    assert of_files(files, "bad.jsonl", "--junit", str(files / read)).exit_code == 2
    assert (files / read).read_bytes() == before


def test_gate__writes_junit_and_markdown(files: Path) -> None:
    junit = files / "gate.xml"
    words = ("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl")
    kpi = ("--kpi", "quality=ACCURACY", "--junit", str(junit))
    result = gate(*words, *kpi, "--format", "markdown")
    # 37 of 40 pass, then 25.
    assert "| ❌ REGRESSION | quality | 0.925 | 0.625 | **−0.300** | −0.4" in result.stdout
    suite = ET.fromstring(junit.read_text())
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    [document] = map(json.loads, gate(*words, *kpi, "--json").stdout.splitlines())
    assert document["outcome"] == "REGRESSION"
    assert document["checks"][0]["effect"] == pytest.approx(-0.3)


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
            assert f"{name}: It has no value: LATENCY_MS.p95 has no value" in completed.stdout


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
def test_gate__stored_runs_have_exit_codes(service: Service, complete_run: CompleteRun) -> None:
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
def test_change__has_the_same_numbers_everywhere(
    service: Service, complete_run: CompleteRun, tmp_path: Path
) -> None:
    env = address_of(service)
    first = complete_run("monday", traces(range(3)))["id"]
    worse = complete_run("tuesday", traces(range(15)))["id"]
    [kpi] = service.get(f"/benchmark-runs/{worse}/kpis")["items"]
    verdict = ValueVerdict.model_validate(kpi["verdict"])
    text = describe_change(verdict, verdict.scale)
    assert text is not None
    assert text.values == "0.925 → 0.625"
    assert text.change.startswith("−0.300 (95 % CI ")
    assert text.change in verdict.explanation
    report = tmp_path / "report.html"
    commands = (
        ["gate", "--run", worse],
        ["gate", "--run", worse, "--format", "markdown"],
        ["runs", "show", worse],
        ["runs", "compare", first, worse],
        ["runs", "report", worse, "--html", str(report)],
    )
    for words in commands:
        content = CliRunner().invoke(cli, words, env=env).stdout
        if words[1] == "report":
            # The page shows the change and its interval in two columns.
            cells = re.findall(r"<td[^>]*>([^<]+)</td>", html.unescape(report.read_text()))
            assert {text.before, text.delta, text.bounds} <= set(cells)
            continue
        # Markdown escapes the sign before a small p, and tables for programs have hyphens.
        assert text.change in content.replace("\\<", "<").replace("-0.", "−0."), words
    plot = service.send("GET", f"/benchmark-runs/{worse}/plot", params={"against": first}).text
    assert text.change in html.unescape(plot)
