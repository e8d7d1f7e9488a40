"""`mosaico.score`, `compare` and `gate`: the results of the commands, from files, rows and frames."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mosaico
from mosaico import GateOutcome, Invalid, NotFound, Trace, Verdict
from mosaico.gating.cli import cli as gate_cli
from mosaico.gating.rules import NothingToGate
from mosaico.reporting import kept_texts
from mosaico.reporting.compare_cli import cli as compare_cli
from mosaico.reporting.score_cli import cli as score_cli
from tests.support.references import Reference

pandas = Reference("pandas")

Row = dict[str, Any]


def answers(wrong: range, items: int = 40) -> list[Row]:
    """Forty answers, of which those in `wrong` are wrong."""
    return [
        {
            "id": f"q{number}",
            "gold": f"answer {number}",
            "output": "<b>wrong</b>" if number in wrong else f"answer {number}",
        }
        for number in range(items)
    ]


BASE, CANDIDATE = answers(range(2)), answers(range(14))


def write_csv(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def to_frame(rows: list[Row]) -> Any:
    return pandas.DataFrame(rows)


def to_traces(rows: list[Row]) -> list[Trace]:
    return [
        Trace(
            trace_id=row["id"], item_id=row["id"], expected_output=row["gold"], output=row["output"]
        )
        for row in rows
    ]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The base and the candidate as files."""
    return write_csv(tmp_path / "base.csv", BASE), write_csv(tmp_path / "today.csv", CANDIDATE)


FORMS: dict[str, Callable[[list[Row]], Any]] = {
    "rows": lambda rows: rows,
    "iterator": iter,
    "traces": to_traces,
    "data frame": to_frame,
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@each_form
def test_score__means_are_those_of_the_answers(form: Callable[[list[Row]], Any]) -> None:
    # 26 of 40 answers are right.
    scores = mosaico.score(form(CANDIDATE), metrics=["accuracy"], formula="ACCURACY * 2")
    assert scores["ACCURACY"] == scores.metrics["ACCURACY"].mean == 0.65
    assert scores.kpi == 1.3
    assert [row.values["ACCURACY"] for row in scores.rows] == [0.0] * 14 + [1.0] * 26


def test_score__is_what_the_command_prints(files: tuple[Path, Path]) -> None:
    printed = CliRunner().invoke(score_cli, [str(files[1]), "--format", "json"])
    document = json.loads(printed.stdout)
    scores = mosaico.score(files[1])
    assert {name: scores.metrics[name].as_json() for name in scores.metrics} == document[
        "aggregates"
    ]
    assert [row.values for row in scores.rows] == [row["values"] for row in document["rows"]]
    assert any("item=id" in remark for remark in scores.remarks)


def test_score__metric_options_and_missing_values() -> None:
    rows: list[Row] = [
        {"id": "a", "expected": "running", "output": "runs"},
        {"id": "b", "expected": "running", "error": "connection reset"},
    ]
    stemmed = mosaico.score(rows, metrics=[{"key": "ROUGE", "options": {"useStemmer": True}}])
    assert stemmed.rows[0].values == {"ROUGE": 1.0}
    assert (stemmed.rows[1].values, stemmed.rows[1].missing) == (
        {"ROUGE": None},
        {"ROUGE": "INFRA_ERROR"},
    )
    # Without the stemmer "runs" and "running" have no word in common.
    assert mosaico.score(rows, metrics=["ROUGE"])["ROUGE"] == 0.0


def test_score__undefined_formula_has_a_reason() -> None:
    rows = [{"id": "a", "expected": "x", "output": None, "error": "connection reset"}]
    scores = mosaico.score(rows, metrics=["ACCURACY"], formula="ACCURACY")
    assert (scores.kpi, "ACCURACY" in (scores.kpi_reason or "")) == (None, True)


def test_score__without_results_has_no_rows() -> None:
    assert mosaico.score([], metrics=["ACCURACY"]).rows == []


@each_form
def test_compare__verdict_interval_and_flipped_items(form: Callable[[list[Row]], Any]) -> None:
    result = mosaico.compare(form(BASE), form(CANDIDATE))
    assert result.verdict is Verdict.REGRESSED
    assert result.metric == "ACCURACY"
    assert result.headline.startswith("REGRESSED: ACCURACY 0.95 → 0.65 (−0.30, 95 % CI −0.4")
    assert {flip.item_id for flip in result.flipped_items} == {f"q{n}" for n in range(2, 14)}


def test_compare__of_several_metrics_the_one_that_regressed_decides() -> None:
    base = [{**row, "passed": 1} for row in answers(range(2))]
    candidate = [{**row, "passed": int(at >= 20)} for at, row in enumerate(answers(range(2)))]
    result = mosaico.compare(base, candidate, metrics=["ACCURACY", "TASK_PASSED"])
    assert (result.verdict, result.metric) == (Verdict.REGRESSED, "TASK_PASSED")
    assert {flip.item_id for flip in result.flipped_items} == {f"q{n}" for n in range(20)}


def test_compare__is_what_the_command_prints(files: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = [*map(str, files), "--no-html", "--format", "json"]
    printed = CliRunner().invoke(compare_cli, arguments)
    document = json.loads(printed.stdout)
    result = mosaico.compare(*files)
    assert document == {**result.comparison.model_dump(mode="json", by_alias=True), "page": None}
    page = result.write_html(tmp_path / "page.html")
    assert "REGRESSED: ACCURACY 0.95 → 0.65" in page.read_text(encoding="utf-8")


def test_gate__is_what_the_command_prints(files: tuple[Path, Path]) -> None:
    arguments = ["--run", str(files[1]), "--baseline", str(files[0]), "--max-drop", "rouge=0.05"]
    printed = CliRunner().invoke(gate_cli, [*arguments, "--format", "json"])
    report = mosaico.gate(files[1], baseline=files[0], max_drop={"rouge": 0.05})
    # The names of options differ, and nothing else.
    assert report.to_json() == json.loads(printed.stdout.replace("--", ""))
    assert (report.outcome, report.passed) == (GateOutcome.REGRESSION, False)
    assert report.exit_code == printed.exit_code == 1
    markdown = CliRunner().invoke(gate_cli, [*arguments, "--format", "markdown"])
    assert report.to_markdown().replace("--", "") == markdown.stdout.replace("--", "")


def test_gate__kpis_and_margins_are_judged_by_name() -> None:
    report = mosaico.gate(
        BASE,
        baseline=BASE,
        kpis={"quality": "ACCURACY * 100"},
        non_inferiority_margins={"ROUGE": 0.001},
    )
    # Identical runs pass; forty items cannot prove a thousandth.
    outcomes = {check.name: check.outcome for check in report.checks}
    assert outcomes == {"quality": GateOutcome.PASS, "ROUGE": GateOutcome.INCONCLUSIVE}
    assert (report.outcome, report.passed) == (GateOutcome.INCONCLUSIVE, False)


def test_results__print_as_a_headline_and_a_short_table() -> None:
    printed = [
        str(mosaico.score(CANDIDATE, formula="ACCURACY")),
        str(mosaico.compare(BASE, CANDIDATE)),
        repr(mosaico.gate(CANDIDATE, baseline=BASE)),
    ]
    assert [text.splitlines()[0][:20] for text in printed] == [
        "ACCURACY = 0.65", "REGRESSED: ACCURACY ", "REGRESSION: candidat",
    ]  # fmt: skip
    # Results are printed in consoles: a table with a row for each item would fill them.
    assert max(len(text.splitlines()) for text in printed) <= 13
    assert max(map(len, printed)) < 2_000
    assert printed[1].splitlines()[1].split() == [
        "metric",
        "verdict",
        "baseline",
        "candidate",
        "change",
    ]


def test_to_pandas__without_pandas_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # None makes the import raise, as if the package were not installed.
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(mosaico.MissingPackages, match=r"mosaico\[pandas\]"):
        mosaico.score(CANDIDATE, metrics=["ACCURACY"]).to_pandas()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mosaico.score(["text"]),  # type: ignore[list-item]
            r"results: row 1: 'text' is neither a mapping nor a Trace",
        ),
        (lambda: mosaico.score(BASE, columns={"outptu": "x"}), "Did you mean output?"),
        (lambda: mosaico.score([{"id": 1}]), "no column holds the output"),
        (lambda: mosaico.score(BASE, metrics=["LLM_JUDGE"]), "MOSAICO_LLM_BASE_URL"),
        (lambda: mosaico.gate(BASE, baseline=BASE, max_drop={"ROUGE": 0.0}), "positive number"),
    ],
    ids=["no row", "unknown field", "no output", "model", "limit"],
)
def test_wrong_use__says_what_to_do(call: Callable[[], object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        call()


def test_unknown_metric__suggests_a_name() -> None:
    with pytest.raises(NotFound, match="Did you mean ROUGE"):
        mosaico.score(BASE, metrics=["RUOGE"])


def test_errors__name_parameters_here_and_options_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("id,note\nq1,x\n")
    with pytest.raises(
        Invalid, match=r"Name the column: columns=\{'output': 'COLUMN'\} \(in the same way expected"
    ):
        mosaico.score(path)
    assert (
        "Name the column: --map output=COLUMN" in CliRunner().invoke(score_cli, [str(path)]).stderr
    )
    path.write_text("id,output,expected\nq1,x,x\n")
    with pytest.raises(Invalid, match=r"^metrics ROUGE:useStemmer: "):
        mosaico.score(path, metrics="ROUGE:useStemmer")
    options = ["--metrics", "ROUGE:useStemmer"]
    assert "--metrics ROUGE:" in CliRunner().invoke(score_cli, [str(path), *options]).stderr
    with pytest.raises(NothingToGate, match=r"^metrics is empty"):
        mosaico.gate(path, baseline=path, metrics=[])


ENGLISH = "The refund of order {} takes five days after it arrived."
KINDS: dict[str, tuple[str, str, str]] = {
    # The expected answer, and the right and the wrong output: each kind makes another metric decide.
    "labels": ("yes", "yes", "no"),
    "labels in sentences": ("yes", "It is yes, of course, as I said", "It is no, of course"),
    "numbers": ("answer {}", "answer {}", "unknown"),
    "texts": (ENGLISH, ENGLISH, "I cannot find order {}."),
    "texts without a common word": (ENGLISH, "refunds{} reorder", "xyz"),
    "texts of another script": ("订单{}的退款需要五天时间才能到账", "订单{}的退款需要五天", "我找不到"),
}  # fmt: skip


def of_kind(kind: str, wrong: int) -> list[Row]:
    """The answers of a kind, the first ones wrong."""
    expected, right, other = (text.format for text in KINDS[kind])
    return [
        {"id": f"{kind}{n}", "gold": expected(n), "output": other(n) if n < wrong else right(n)}
        for n in range(40)
    ]


@pytest.mark.parametrize(
    "kinds", [*((kind,) for kind in KINDS), ("labels", "texts"), ("numbers", "texts")]
)
def test_compare__decides_as_with_all_metrics(kinds: tuple[str, ...]) -> None:
    base, candidate = ([row for kind in kinds for row in of_kind(kind, n)] for n in (2, 14))
    few = mosaico.compare(base, candidate)
    complete = mosaico.compare(base, candidate, all_metrics=True)
    assert (few.headline.split(";")[0], few.metric) == (
        complete.headline.split(";")[0],
        complete.metric,
    )
    assert few.verdict == "REGRESSED"
    verdicts = {row.metric: row.verdict for row in complete.comparison.metrics}
    [deciding] = [row for row in few.comparison.metrics if row.metric == few.metric]
    assert deciding.verdict == verdicts[deciding.metric]
    gated = mosaico.gate(candidate, baseline=base)
    assert [check.name for check in gated.checks] == [complete.metric]


def test_compare__says_which_metrics_it_did_not_compute() -> None:
    base, candidate = of_kind("texts", 2), of_kind("texts", 14)
    few = mosaico.compare(base, candidate)
    [line] = [remark for remark in few.remarks if "not computed" in remark]
    assert "CHRF" in line
    assert "all_metrics=True" in line
    assert "CHRF" not in {row.metric for row in few.comparison.metrics}
    complete = mosaico.compare(base, candidate, all_metrics=True)
    assert not [remark for remark in complete.remarks if "not computed" in remark]
    assert "CHRF" in {row.metric for row in complete.comparison.metrics}
    # Without expected answers there is nothing else to compute.
    answered = [{"id": row["id"], "output": row["output"]} for row in base]
    assert not [r for r in mosaico.compare(answered, answered).remarks if "not computed" in r]


def test_compare__shows_the_same_texts_of_files_that_are_too_large_to_keep(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages = []
    for limit in (10_000, 10):
        monkeypatch.setattr(kept_texts, "MAX_KEPT_CHARS", limit)
        mosaico.compare(*files).write_html(tmp_path / "page.html")
        pages.append((tmp_path / "page.html").read_text())
    assert pages[0] == pages[1]
    assert "answer 13" in pages[0]
