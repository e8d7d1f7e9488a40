"""`mosaico gate`: the exit code that a CI server reads."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from mosaico.cli import cli
from tests.integration.comparison.conftest import gate, traces
from tests.support.service import ndjson


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
    assert f"{config} sets metrics ROUGE, BLEU; KPI quality = AVERAGE(ROUGE, BLEU)" in judged.stderr
    # What the command line names wins, and the line says so.
    both = gate(*files_of_run, "--config", config, "--metrics", "ROUGE", "--json")
    assert [check["name"] for check in json.loads(both.stdout)["checks"]] == ["ROUGE"]
    assert "--metrics replaces its metrics and KPIs" in both.stderr
    config.write_text('{"measures": ["quality"]}')
    assert "a measure has `name` and `formula`" in gate(*files_of_run, "--config", config).stderr


@pytest.fixture
def slower_files(tmp_path: Path, plugins: None) -> tuple[Path, Path]:
    """Two files with the same answers; the second takes 2.5 times as long."""
    paths = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for path, factor in zip(paths, (1.0, 2.5), strict=True):
        timed = [
            {**trace, "latencyMs": factor * (100 + index)}
            for index, trace in enumerate(traces(range(3)))
        ]
        path.write_bytes(ndjson(timed))
    return paths


@pytest.mark.parametrize(
    ("kpi", "outcome", "code", "warning"),
    [
        ("LATENCY_MS.p50", "REGRESSION", 1, ""),
        ("1000 / LATENCY_MS", "REGRESSION", 1, ""),
        ("LATENCY_MS.p50 higher", "PASS", 0, "by LATENCY_MS.p50 lower is better"),
        ("ROUGE + LATENCY_MS", "CHANGED", 4, "no direction follows from ROUGE + LATENCY_MS"),
        ("ROUGE + LATENCY_MS lower", "REGRESSION", 1, ""),
        ("ROUGE + LATENCY_MS higher", "PASS", 0, ""),
    ],
)
def test_gate__direction_of_a_kpi_follows_from_its_formula(
    slower_files: tuple[Path, Path], kpi: str, outcome: str, code: int, warning: str
) -> None:
    before, after = slower_files
    result = gate("--run", after, "--baseline", before, "--kpi", f"speed={kpi}", "--json")
    document = json.loads(result.stdout)
    assert (document["outcome"], result.exit_code) == (outcome, code)
    assert warning in result.stderr
    assert ("warning" in result.stderr) is bool(warning)
    if outcome == "CHANGED":
        assert "lower'; in a file of --config" in result.stdout


@pytest.mark.parametrize(
    ("formula", "better", "outcome", "code", "warning"),
    [
        ('SCORE["tone"]', "higher", "REGRESSION", 1, ""),
        ('SCORE["tone"]', "lower", "PASS", 0, ""),
        ('1 - SCORE["tone"]', "higher", "REGRESSION", 1, ""),
        ('SCORE["tone"] lower', "higher", "PASS", 0, 'by SCORE["tone"] higher is better'),
        ('SCORE["tone"]', None, "CHANGED", 4, 'no direction follows from SCORE["tone"]'),
    ],
)
def test_gate__kpi_of_a_score_has_the_direction_of_the_score(
    tmp_path: Path,
    plugins: None,
    formula: str,
    better: str | None,
    outcome: str,
    code: int,
    warning: str,
) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for path, level in ((before, 0.8), (after, 0.2)):
        scored = [
            {**trace, "scores": {"tone": level + index / 1000}}
            for index, trace in enumerate(traces(range(3)))
        ]
        path.write_bytes(ndjson(scored))
    options = [f"--better=tone={better}"] if better else []
    words = ("--kpi", f"tone={formula}", *options, "--json")
    result = gate("--run", after, "--baseline", before, *words)
    assert (json.loads(result.stdout)["outcome"], result.exit_code) == (outcome, code)
    assert warning in result.stderr
    assert ("warning" in result.stderr) is bool(warning)


def test_gate__change_from_zero_is_absolute_and_has_its_unit(tmp_path: Path, plugins: None) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for path, factor in ((before, 0), (after, 1)):
        used = [
            {**trace, "costUsd": 0.002 * factor, "latencyMs": 200 * factor}
            for trace in traces(range(3))
        ]
        path.write_bytes(ndjson(used))
    words = ("--run", after, "--baseline", before, "--metrics", "COST_USD,LATENCY_MS")
    shown = gate(*words).stdout
    assert "+0.002 USD" in shown
    assert "+200 ms" in shown
    assert "%" not in shown.replace("95 % CI", "")


@pytest.mark.parametrize(
    ("direction", "verdict"),
    [(None, "REGRESSED"), ("HIGHER_IS_BETTER", "IMPROVED"), ("NEITHER", "CHANGED")],
)
def test_compare__kpis_of_a_config_decide(
    slower_files: tuple[Path, Path], direction: str | None, verdict: str
) -> None:
    before, after = slower_files
    config = before.parent / "benchmark.json"
    measure = {"name": "speed", "formula": "LATENCY_MS", "direction": direction}
    config.write_text(json.dumps({"metrics": ["ROUGE"], "measures": [measure]}))
    words = ["compare", str(before), str(after), "--config", str(config), "--no-html"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{verdict}: speed ")
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert document["judged"] == ["speed"]
    assert document["kpis"][0]["verdict"]["verdict"] == verdict
    measure["direction"] = "UP"
    config.write_text(json.dumps({"measures": [measure]}))
    assert (
        "measures/0/direction: must be 'HIGHER_IS_BETTER'" in CliRunner().invoke(cli, words).stderr
    )


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
        # Six of 40 items changed: a true fall of 0.12 is possible, one of 0.2 is not. Of equal runs
        # one of 0.05 is possible.
        ("like.jsonl", ("--non-inferiority-margin", "ACCURACY=0.2"), 0),
        ("like.jsonl", ("--non-inferiority-margin", "ACCURACY=0.05"), 4),
        ("good.jsonl", ("--non-inferiority-margin", "ACCURACY=0.05"), 4),
        # What was requested and is not measured never passes.
        ("good.jsonl", ("--metrics", "ACCURACY,TASK_PASSED"), 3),
        ("good.jsonl", ("--metrics", "TASK_PASSED"), 3),
        ("good.jsonl", ("--metrics", "NO_SUCH_METRIC"), 2),
        ("lost.jsonl", (), 3),
        ("none.jsonl", (), 65),
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
    assert (without_value.exit_code, "scores for 0 of 40 items" in without_value.output) == (
        3,
        True,
    )
    new = gate("--run", files / "scored.jsonl", "--baseline", files / "good.jsonl", *words)
    assert (new.exit_code, "no item has a value in both runs" in new.output) == (3, True)


@pytest.mark.parametrize("run", ["good.jsonl", "bad.jsonl"])
def test_gate__requested_metric_without_values_is_named(files: Path, run: str) -> None:
    for names in ("ROUGE,TASK_PASSED", "TASK_PASSED"):
        result = gate("--run", files / run, "--baseline", files / "good.jsonl", "--metrics", names)
        assert "TASK_PASSED: scores for 0 of 40 items" in result.stdout


def test_gate__two_files_of_labels_are_judged_by_one_metric(files: Path) -> None:
    result = gate("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl", "--json")
    document = json.loads(result.stdout)
    [check] = document["checks"]
    # One decision and one p-value.
    assert (check["name"], check["outcome"], check["pAdjusted"]) == (
        "ACCURACY", "REGRESSION", check["p"],
    )  # fmt: skip
    # Every other metric has the same value on each item, so it is the same row.
    assert "ROUGE" not in {figure["name"] for figure in document["information"]}
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


def test_gate__file_needs_a_baseline_file(files: Path) -> None:
    assert gate("--run", files / "bad.jsonl").exit_code == 2


def test_gate__metrics_have_options(files: Path) -> None:
    files_of_run = ("--run", files / "bad.jsonl", "--baseline", files / "good.jsonl")
    judged = gate(*files_of_run, "--metrics", "ROUGE:useStemmer=true,BLEU", "--json")
    assert [check["name"] for check in json.loads(judged.stdout)["checks"]] == ["ROUGE", "BLEU"]
    wrong = gate(*files_of_run, "--metrics", "ROUGE:stem")
    assert (wrong.exit_code, "'stem' does not have the form OPTION=VALUE" in wrong.stderr) == (
        2,
        True,
    )
