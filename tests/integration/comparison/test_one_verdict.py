"""One verdict for the same data, whoever computes it: commands, Python, pytest, and a stored run."""

import json
from pathlib import Path
from random import Random
from unittest.mock import ANY

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

import mosaico
from mosaico.cli import cli
from mosaico.comparison import stored_run_comparison
from mosaico.items.matrix import is_short_text
from mosaico.items.queries import IS_SHORT
from tests.support.decided_data import DATA, DecidedData
from tests.support.inner_pytest import run_inner_pytest
from tests.support.service import JSON, Service

OUTCOMES = {
    "REGRESSED": ("REGRESSION", 1),
    "IMPROVED": ("PASS", 0),
    "CHANGED": ("CHANGED", 4),
    "INCONCLUSIVE": ("INCONCLUSIVE", 0),
    "NOT_MEASURED": ("NOT_MEASURED", 3),
}
# The first data of each verdict and question; `make prove` compares all interfaces for the others, too. Which metric
# decides is computed by the same functions, of which all data are tested.
FIRST = {(data.verdict, data.about): name for name, data in reversed(DATA.items())}.values()
EVERY_KIND = pytest.mark.parametrize(
    "data",
    [
        pytest.param(data, id=name, marks=[] if name in FIRST else pytest.mark.prove)
        for name, data in DATA.items()
    ],
)


def write(path: Path, rows: list[JSON]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def run(*words: str | Path) -> tuple[int, JSON]:
    result = CliRunner().invoke(cli, [*map(str, words), "--json"])
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


def without_remedies(comparison: JSON) -> JSON:
    """The comparison without the options that give a metric a direction: each interface has its own names for them."""
    rows = [
        row | {"verdict": row["verdict"] | {"remedy": None, "explanation": None}}
        if row["verdict"]["remedy"]
        else row
        for row in comparison["metrics"]
    ]
    return comparison | {"metrics": rows}


def abouts(comparison: JSON) -> set[str]:
    """The questions that the judged metrics answer."""
    return {
        row["verdict"]["about"]
        for row in comparison["metrics"]
        if row["metric"] in comparison["judged"] and row["verdict"]["about"] is not None
    }


def expected_outcome(data: DecidedData) -> tuple[str, int]:
    # No item differs, so nothing larger than the limit is possible among these items.
    return OUTCOMES.get(data.verdict, ("PASS", 0))


def write_both(folder: Path, data: DecidedData) -> tuple[Path, Path]:
    return write(folder / "before.jsonl", data.before), write(folder / "after.jsonl", data.after)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_files__have_the_verdict_of_the_metric_that_decides(
    data: DecidedData, tmp_path: Path
) -> None:
    comparison = mosaico.compare(*write_both(tmp_path, data), better=data.better)
    assert (str(comparison.verdict), comparison.metric) == (data.verdict, data.metric)
    document = comparison.comparison.model_dump(mode="json", by_alias=True)
    assert abouts(document) <= {data.about}


@EVERY_KIND
def test_files__have_one_verdict_in_commands_and_python(data: DecidedData, tmp_path: Path) -> None:
    before, after = write_both(tmp_path, data)
    options = [f"--better={name}={direction}" for name, direction in data.better.items()]
    comparison = mosaico.compare(before, after, better=data.better)
    code, compared = run("compare", before, after, "--no-html", *options)
    in_python = comparison.comparison.model_dump(mode="json", by_alias=True) | {"page": None}
    assert without_remedies(compared) == without_remedies(in_python)
    assert code == 0
    code, gated = run("gate", "--run", after, "--baseline", before, *options)
    assert (gated["outcome"], code) == expected_outcome(data)
    report = mosaico.gate(after, baseline=before, better=data.better)
    # The names of parameters differ, and nothing else.
    named = {"choice": None, "remarks": None}
    assert report.to_json() | named == gated | {**named, "checks": ANY}
    assert [check.outcome for check in report.checks] == [
        check["outcome"] for check in gated["checks"]
    ]
    # What is known stays the outcome, also where an inconclusive one passes.
    strict = run("gate", "--run", after, "--baseline", before, "--inconclusive", "pass", *options)
    assert strict[0] == code


@EVERY_KIND
def test_stored_run__has_the_verdict_of_the_files(
    data: DecidedData, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    service.create_agent()
    service.create_benchmark(metrics=data.metrics, minCoverage=0, maxErrorShare=1)
    runs = []
    for name, rows in (("before", data.before), ("after", data.after)):
        service.upload(rows, run_name=name)
        runs.append(service.complete_run(runName=name))
    assert runs[1]["verdict"]["verdict"] == data.verdict, runs[1]["verdict"]
    compared = service.get(
        "/benchmark-runs/compare", baseline=runs[0]["id"], candidate=runs[1]["id"]
    )
    assert compared["verdict"]["verdict"] == data.verdict
    assert abouts(compared) <= {data.about}
    if data.metric != "STATUS":
        assert (data.metric is None) is (compared["judged"] == [])
        assert data.metric is None or data.metric in compared["judged"]
    words = ["gate", "--run", runs[1]["id"], "--json"]
    result = CliRunner().invoke(cli, words, env=client_env(service))
    assert (json.loads(result.stdout)["outcome"], result.exit_code) == expected_outcome(data)


def test_about__another_question_decides_for_files_and_stored_runs(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    data = DATA["tasks-break"]
    before, after = (
        write(tmp_path / f"{name}.jsonl", rows)
        for name, rows in (("before", data.before), ("after", data.after))
    )
    assert mosaico.compare(before, after, about="population").verdict == "INCONCLUSIVE"
    assert mosaico.gate(after, baseline=before, about="population").outcome == "INCONCLUSIVE"
    words = ("gate", "--run", after, "--baseline", before, "--about")
    assert [run(*words, about)[0] for about in ("tasks", "population")] == [1, 0]
    with pytest.raises(mosaico.MosaicoError, match="tasks"):
        mosaico.compare(before, after, about="items")
    service.create_agent()
    service.create_benchmark(
        metrics=data.metrics, minCoverage=0, maxErrorShare=1, baseline={"about": "POPULATION"}
    )
    stored = []
    for name, rows in (("before", data.before), ("after", data.after)):
        service.upload(rows, run_name=name)
        stored.append(service.complete_run(runName=name))
    assert stored[1]["verdict"]["verdict"] == "INCONCLUSIVE"
    pair = {"baseline": stored[0]["id"], "candidate": stored[1]["id"]}
    verdicts = [
        service.get("/benchmark-runs/compare", **pair, **about)["verdict"]["verdict"]
        for about in ({}, {"about": "TASKS"})
    ]
    assert verdicts == ["INCONCLUSIVE", "REGRESSED"]
    command = ["runs", "compare", stored[0]["id"], stored[1]["id"], "--format", "json"]
    for options, verdict in (([], "INCONCLUSIVE"), (["--about", "tasks"], "REGRESSED")):
        result = CliRunner().invoke(cli, [*command, *options], env=client_env(service))
        assert json.loads(result.stdout)["verdict"]["verdict"] == verdict


def client_env(service: Service) -> dict[str, str]:
    return {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }


def nights(count: int) -> list[list[JSON]]:
    """Runs of 40 items of which some others fail each night; in the last one many do."""
    random = Random(43)
    failed = [{*random.sample(range(40), random.randint(2, 6))} for _ in range(count - 1)]
    return [
        [
            {
                "traceId": f"t{item}",
                "itemId": f"q{item:02}",
                "input": f"question {item}",
                "output": "an answer",
                "scores": {"TASK_PASSED": float(item not in failures)},
            }
            for item in range(40)
        ]
        for failures in [*failed, {*range(11)}]
    ]


def passed(comparison: JSON) -> JSON:
    """The verdict of passes and failures."""
    [row] = [row for row in comparison["metrics"] if row["metric"] == "TASK_PASSED"]
    verdict: JSON = row["verdict"]
    return verdict


def test_history__files_have_the_verdict_of_a_run_with_a_series(
    service: Service, tmp_path: Path
) -> None:
    runs = nights(6)
    service.create_agent()
    service.create_benchmark(metrics=["TASK_PASSED"])
    completed = []
    for night, rows in enumerate(runs):
        service.upload(rows, run_name=f"night-{night}")
        completed.append(service.complete_run(runName=f"night-{night}"))
    *_, previous, stored = completed
    metric = service.get(f"/benchmark-runs/{stored['id']}/metrics")["items"][0]
    files = [write(tmp_path / f"night-{night}.jsonl", rows) for night, rows in enumerate(runs)]
    *earlier, before, after = files
    compared = mosaico.compare(before, after, history=earlier).comparison
    document = passed(compared.model_dump(mode="json", by_alias=True))
    # They do not vary more than assumed, which five runs cannot prove.
    assert document["wholeRuns"]["basis"] == "ASSUMED"
    assert document["wholeRuns"]["runs"] == 5
    assert document["wholeRuns"] == pytest.approx(metric["verdict"]["wholeRuns"])
    numbers = ("verdict", "effect", "low", "high", "p", "minDetectableEffect")
    assert {name: document[name] for name in numbers} == pytest.approx(
        {name: metric["verdict"][name] for name in numbers}
    )
    # A pattern names the earlier runs, without the two that are compared.
    words = ("compare", before, after, "--no-html")
    _, by_pattern = run(*words, "--history", tmp_path / "night-*.jsonl")
    assert passed(by_pattern) == document
    _, of_two = run(*words, "--history", earlier[0])
    assert passed(of_two)["wholeRuns"]["runs"] == 2
    # What is stated replaces what is measured, for a stored run as well.
    _, stated = run(*words, "--run-sd", "0.2")
    assert passed(stated)["wholeRuns"] == {"sd": 0.2, "basis": "GIVEN", "runs": 0}
    assert stated["verdict"]["verdict"] == "INCONCLUSIVE"
    gate = ("gate", "--run", after, "--baseline", before)
    assert [run(*gate, "--run-sd", sd)[1]["outcome"] for sd in ("0", "0.2")] == [
        "REGRESSION",
        "INCONCLUSIVE",
    ]
    of_stored = ["gate", "--run", stored["id"], "--run-sd", "0.2", "--json"]
    result = CliRunner().invoke(cli, of_stored, env=client_env(service))
    assert json.loads(result.stdout)["outcome"] == "INCONCLUSIVE"
    compare = ["runs", "compare", previous["id"], stored["id"], "--format", "json"]
    result = CliRunner().invoke(cli, [*compare, "--run-sd", "0.2"], env=client_env(service))
    assert passed(json.loads(result.stdout))["wholeRuns"]["basis"] == "GIVEN"


def test_history__gate_says_what_all_runs_together_say(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{night}.jsonl", rows) for night, rows in enumerate(nights(9))]
    *earlier, before, after = files
    options = [word for path in earlier for word in ("--history", path)]
    _, alone = run("gate", "--run", after, "--baseline", before)
    _, together = run("gate", "--run", after, "--baseline", before, *options)
    assert any("one look" in remark for remark in alone["remarks"])
    assert not any("one look" in remark for remark in together["remarks"])
    assert any("all 9 runs" in remark for remark in together["remarks"])
    refused = CliRunner().invoke(
        cli, ["compare", str(before), str(after), "--history", str(after), "--no-html"]
    )
    assert refused.exit_code == 2
    assert "no earlier run" in refused.stderr


def test_lost_scores__are_invalid_in_files_and_stored_runs(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A third of the scores that the baseline has: nothing that was measured in both runs fell."""
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    data = DATA["same-scores"]
    few = [row | {"scores": {}} if number % 3 else row for number, row in enumerate(data.before)]
    before, after = (
        write(tmp_path / f"{name}.jsonl", rows)
        for name, rows in (("before", data.before), ("after", few))
    )
    compared = mosaico.compare(before, after)
    assert compared.verdict == "INVALID"
    assert mosaico.gate(after, baseline=before).outcome == "INVALID"
    assert run("compare", before, after, "--no-html")[0] == 3
    assert run("gate", "--run", after, "--baseline", before)[0] == 3
    service.create_agent()
    service.create_benchmark(metrics=data.metrics)
    runs = []
    for name, rows in (("before", data.before), ("few", few), ("again", data.before)):
        service.upload(rows, run_name=name)
        runs.append(service.complete_run(runName=name))
    expected_reason = "scores for 14 of 40 items"
    verdict = runs[1]["verdict"]
    assert (verdict["verdict"], expected_reason in verdict["reason"]) == ("INVALID", True), verdict
    assert expected_reason in compared.comparison.verdict.explanation
    env = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    result = CliRunner().invoke(cli, ["gate", "--run", runs[1]["id"], "--json"], env=env)
    assert (json.loads(result.stdout)["outcome"], result.exit_code) == ("INVALID", 3)
    # The next run is compared with the complete one.
    assert [run["baselineHold"] for run in runs] == [None, None, None]
    assert [run["validity"] for run in runs] == ["VALID", "INVALID", "VALID"]
    assert runs[2]["verdict"]["baseline"]["runIds"] == [runs[0]["id"]]
    assert runs[2]["verdict"]["verdict"] == data.verdict


def test_scores_of_equal_answers__are_those_of_the_judge_in_files_and_stored_runs(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The judge is stricter by about 0.6, on the ten answers that did not change as well."""
    monkeypatch.setattr(
        stored_run_comparison, "compare_in_child", stored_run_comparison.compare_runs
    )
    data = DATA["ragas-falls"]
    rows = [
        row | {"output": before["output"]} if number < 10 else row
        for number, (before, row) in enumerate(zip(data.before, data.after, strict=True))
    ]
    # Another order of calls is another way to the same answer.
    calls = [{"name": name} for name in ("search", "read")]
    # Another time of a call is none.
    before_rows = [
        data.before[0] | {"toolCalls": calls},
        data.before[1] | {"toolCalls": [calls[0] | {"latencyMs": 5}]},
        *data.before[2:],
    ]
    rows = [
        rows[0] | {"toolCalls": calls[::-1]},
        rows[1] | {"toolCalls": [calls[0] | {"latencyMs": 9}]},
        *rows[2:],
    ]
    before, after = (
        write(tmp_path / f"{name}.jsonl", lines)
        for name, lines in (("before", before_rows), ("after", rows))
    )
    comparison = mosaico.compare(before, after)
    assert comparison.verdict == "INCONCLUSIVE"
    service.create_agent()
    service.create_benchmark(metrics=data.metrics, minCoverage=0, maxErrorShare=1)
    stored = []
    for name, lines in (("before", before_rows), ("after", rows)):
        service.upload(lines, run_name=name)
        stored.append(service.complete_run(runName=name))
    assert stored[1]["verdict"]["verdict"] == "INCONCLUSIVE"
    compared = service.get(
        "/benchmark-runs/compare", baseline=stored[0]["id"], candidate=stored[1]["id"]
    )
    for metrics in (
        comparison.comparison.model_dump(mode="json", by_alias=True)["metrics"],
        compared["metrics"],
        service.get(f"/benchmark-runs/{stored[1]['id']}/metrics")["items"],
    ):
        (judged,) = [
            metric["verdict"]["judgedAnswers"]
            for metric in metrics
            if "faithfulness" in metric["metric"]
        ]
        assert (judged["answers"], judged["changed"], judged["counts"]) == (9, 9, True)
        assert judged["shift"] == pytest.approx(-0.7, abs=0.05)
    phrase = "9 of 9 equal answers (100 %) have another score"
    assert phrase in stored[1]["verdict"]["explanation"]
    for words in (
        ("compare", before, after, "--no-html"),
        ("gate", "--run", after, "--baseline", before),
    ):
        assert phrase in CliRunner().invoke(cli, [*map(str, words)]).stdout


def by_item(rows: list[JSON]) -> dict[str, list[JSON]]:
    """The trials of each item."""
    trials: dict[str, list[JSON]] = {}
    for row in rows:
        trials.setdefault(row["itemId"], []).append(row)
    return trials


TESTS = """
import json
import pytest
from pathlib import Path

AFTER = json.loads((Path(__file__).parent / "after.json").read_text())
BETTER = json.loads((Path(__file__).parent / "better.json").read_text())

def answer(rows, item):
    row = rows[item.id].pop(0)
    if row.get("outcome") == "agent_error":
        raise RuntimeError("it failed")
    return {"output": row["output"], "scores": row.get("scores") or {}}
"""
ONE_TEST = """
@pytest.mark.mosaico(items="{name}.items.jsonl", trials={trials}, baseline="{name}.before.jsonl", better=BETTER["{name}"])
def test_{identifier}(item):
    return answer(AFTER["{name}"], item)
"""


def test_pytest__has_the_verdict_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = TESTS
    for name, data in DATA.items():
        write(tmp_path / f"{name}.before.jsonl", data.before)
        items = [
            {"id": row["itemId"], "input": row["input"], "expected": row.get("expectedOutput")}
            for row in data.before
            if not row.get("trial")
        ]
        write(tmp_path / f"{name}.items.jsonl", items)
        code += ONE_TEST.format(
            name=name, identifier=name.replace("-", "_"), trials=len(data.before) // len(items)
        )
    after = {name: by_item(data.after) for name, data in DATA.items()}
    (tmp_path / "after.json").write_text(json.dumps(after))
    (tmp_path / "better.json").write_text(
        json.dumps({name: data.better for name, data in DATA.items()})
    )
    (tmp_path / "test_bot.py").write_text(code)
    run_inner_pytest("-q", "-rA", "-p", "no:cacheprovider")
    output = capsys.readouterr().out
    for name, data in DATA.items():
        _, exit_code = expected_outcome(data)
        word = "PASSED" if exit_code == 0 else "FAILED"
        assert f"{word} test_bot.py::test_{name.replace('-', '_')}" in output, (
            name,
            output[-3000:],
        )


MARKED = """
ROWS = [*map(json.loads, (Path(__file__).parent / "after.jsonl").read_text().splitlines())]
OPTIONS = dict(items="items.jsonl", trials=5, baseline="before.jsonl")

def trials():
    rows = {}
    for row in ROWS:
        rows.setdefault(row["itemId"], []).append(dict(row))
    return rows

PLAIN, OTHERS, STATED, MEASURED = trials(), trials(), trials(), trials()

@pytest.mark.mosaico(**OPTIONS)
def test_plain(item):
    return answer(PLAIN, item)

@pytest.mark.mosaico(**OPTIONS, about="population")
def test_others(item):
    return answer(OTHERS, item)

@pytest.mark.mosaico(**OPTIONS, run_sd=0.4)
def test_stated(item):
    return answer(STATED, item)

@pytest.mark.mosaico(**OPTIONS, history=["early.jsonl", "early.jsonl"])
def test_measured(item):
    return answer(MEASURED, item)
"""


def test_pytest__marker_names_the_question_and_the_earlier_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = DATA["tasks-break"]
    write(tmp_path / "before.jsonl", data.before)
    write(tmp_path / "early.jsonl", data.before)
    write(tmp_path / "after.jsonl", data.after)
    items = [{"id": item, "input": rows[0]["input"]} for item, rows in by_item(data.before).items()]
    write(tmp_path / "items.jsonl", items)
    header = TESTS.replace("AFTER = json", "# AFTER = json").replace(
        "BETTER = json", "# BETTER = json"
    )
    (tmp_path / "test_bot.py").write_text(header + MARKED)
    run_inner_pytest("-q", "-rA", "-p", "no:cacheprovider")
    output = capsys.readouterr().out
    # Four of ten tasks broke: other tasks need not, and runs that vary by 40 points may do that by chance.
    for word, name in (
        ("FAILED", "plain"),
        ("PASSED", "others"),
        ("PASSED", "stated"),
        ("FAILED", "measured"),
    ):
        assert f"{word} test_bot.py::test_{name}" in output, (name, output[-3000:])
    assert "earlier runs are too few to show that they vary less" in output


def test_short_texts__are_the_same_in_postgres_and_in_python(service: Service) -> None:
    texts = [
        None, "", " ", "yes", " two  words ", "one two three", "one two three four", "x" * 32, "x" * 33,
        "日本の首都は東京で", "日本の首都は東京です。", "line\nbreak",
    ]  # fmt: skip
    statement = text(
        f"SELECT {IS_SHORT} FROM (SELECT CAST(:text AS text) AS expected_output) AS trace"
    )
    with service.resources.db.read() as session:
        short = [session.scalar(statement, {"text": value}) for value in texts]
    assert short == [is_short_text(value) for value in texts]
