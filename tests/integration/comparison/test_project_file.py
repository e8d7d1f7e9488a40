"""The benchmark of `mosaico.yaml` judges files as it judges runs, and every command says that it did."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import mosaico
from mosaico.cli import cli
from tests.integration.comparison.conftest import gate, traces
from tests.support.inner_pytest import run_inner_pytest
from tests.support.service import ndjson

# 3 and 15 of 40 answers are wrong: ACCURACY 0.925 and 0.625.
BEFORE, AFTER = range(3), range(15)


@pytest.fixture
def folder(tmp_path: Path, plugins: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two files of results."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.jsonl").write_bytes(ndjson(traces(BEFORE)))
    (tmp_path / "after.jsonl").write_bytes(ndjson(traces(AFTER)))
    return tmp_path


def write_file(folder: Path, kpis: dict[str, object], **fields: object) -> Path:
    benchmark = {"metrics": ["ACCURACY", "ROUGE"], "kpis": kpis, **fields}
    path = folder / "mosaico.yaml"
    # JSON is YAML; the names of the file are those of the API.
    path.write_text(json.dumps({"name": "bot", "benchmarks": {"nightly": benchmark}}))
    return path


def gate_files(*words: str) -> Result:
    return gate("--run", "after.jsonl", "--baseline", "before.jsonl", *words)


def compare_files(*words: str) -> Result:
    files = ["compare", "before.jsonl", "after.jsonl", "--no-html"]
    return CliRunner().invoke(cli, [*files, *words])


def checks_of(result: Result) -> list[tuple[str, str]]:
    return [(check["name"], check["outcome"]) for check in json.loads(result.stdout)["checks"]]


def test_gate__file_of_the_current_folder_judges_and_is_named(folder: Path) -> None:
    kpis = {
        "quality": {"formula": "ACCURACY", "gate": True},
        "words": {"formula": "ROUGE"},
    }
    write_file(folder, kpis)
    result = gate_files("--json")
    assert (checks_of(result), result.exit_code) == ([("quality", "REGRESSION")], 1)
    line = "mosaico.yaml: benchmark nightly sets metrics ACCURACY, ROUGE; KPI quality = ACCURACY"
    assert line in result.stderr
    assert line in json.loads(result.stdout)["remarks"][0]
    # Without the file, what decides follows from the answers.
    alone = gate_files("--json", "--no-config")
    assert checks_of(alone) == [("ACCURACY", "REGRESSION")]
    assert "mosaico.yaml" not in alone.stderr


@pytest.mark.parametrize(
    ("kpi", "code"),
    [
        # The fall is 0.3.
        ({"formula": "ACCURACY", "minEffect": 0.2}, 1),
        ({"formula": "ACCURACY", "minEffect": 0.9}, 0),
        ({"formula": "ACCURACY", "direction": "LOWER_IS_BETTER"}, 0),
    ],
)
def test_gate__limit_and_direction_of_a_kpi_count(
    folder: Path, kpi: dict[str, object], code: int
) -> None:
    write_file(folder, {"quality": kpi})
    result = gate_files()
    assert result.exit_code == code, result.output


def test_gate__coverage_of_the_benchmark_counts(folder: Path) -> None:
    # 5 of 40 answers are missing: a coverage of 0.875, below the 0.9 that is usual.
    lost = [t | {"outcome": "infra_error"} if n > 34 else t for n, t in enumerate(traces(BEFORE))]
    (folder / "after.jsonl").write_bytes(ndjson(lost))
    write_file(folder, {"quality": {"formula": "ACCURACY"}})
    assert gate_files().exit_code == 3
    write_file(folder, {"quality": {"formula": "ACCURACY"}}, minCoverage=0.8, maxErrorShare=0.2)
    result = gate_files()
    assert result.exit_code == 0, result.output
    assert "minCoverage 0.8; maxErrorShare 0.2" in result.stderr


def test_compare__clusters_of_the_benchmark_widen_the_interval(folder: Path) -> None:
    # Twelve answers fall, all of them in three of eight groups: that are three observations, not twelve.
    for name, failed in (("before.jsonl", BEFORE), ("after.jsonl", AFTER)):
        grouped = [t | {"tags": [f"group:{n // 5}"]} for n, t in enumerate(traces(failed))]
        (folder / name).write_bytes(ndjson(grouped))
    kpis: dict[str, object] = {"quality": {"formula": "ACCURACY"}}
    widths = []
    for fields in ({}, {"clusterField": "group"}):
        write_file(folder, kpis, **fields)
        verdict = json.loads(compare_files("--json").stdout)["kpis"][0]["verdict"]
        assert verdict["effect"] == pytest.approx(-0.3)
        widths.append(verdict["high"] - verdict["low"])
    assert widths[1] > 1.2 * widths[0]


def test_compare__option_wins_over_the_file_and_says_so(folder: Path) -> None:
    write_file(folder, {"quality": {"formula": "ROUGE"}})
    judged = compare_files()
    assert judged.stdout.startswith("REGRESSED: quality ")
    named = compare_files("--metrics", "ACCURACY")
    assert named.stdout.startswith("REGRESSED: ACCURACY ")
    assert "--metrics replaces its metrics and KPIs" in named.stderr


def test_compare__of_several_benchmarks_one_is_named(folder: Path) -> None:
    path = folder / "other.yaml"
    path.write_text(
        "name: bot\nbenchmarks:\n  nightly: {metrics: [ROUGE]}\n  weekly: {metrics: [ACCURACY]}\n"
    )
    unclear = compare_files("--config", "other.yaml")
    assert unclear.exit_code == 65
    assert "nightly, weekly" in unclear.stderr
    assert "--benchmark NAME" in unclear.stderr
    chosen = compare_files("--config", "other.yaml", "--benchmark", "weekly")
    assert chosen.stdout.startswith("REGRESSED: ACCURACY ")
    assert compare_files("--benchmark", "weekly").exit_code == 2


def test_compare__wrong_file_of_the_current_folder_names_its_errors_and_the_way_around(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mosaico.yaml").write_text("name: bot\nbenchmarks: {nightly: {metrix: [ROUGE]}}\n")
    wrong = compare_files()
    assert wrong.exit_code == 65
    assert "mosaico.yaml:2:24" in wrong.stderr
    assert "--no-config" in wrong.stderr
    assert compare_files("--no-config").stdout.startswith("REGRESSED: ACCURACY ")
    # A file without a benchmark, such as one of endpoints only, judges nothing: that is said, too.
    (folder / "mosaico.yaml").write_text("name: bot\nagents: {bot: }\n")
    assert "--no-config" in compare_files().stderr
    (folder / "test_bot.py").write_text(TESTS)
    (folder / "wrong.txt").write_text("3")
    assert run_inner_pytest("--mosaico-update-baseline") == 0
    (folder / "mosaico.yaml").write_text("name: bot\nbenchmarks: {nightly: {metrix: [ROUGE]}}\n")
    capsys.readouterr()
    assert run_inner_pytest("-k", "test_answers") == 1
    assert "mosaico.yaml:2:24" in capsys.readouterr().out


def test_score__metrics_and_kpis_are_those_of_the_file(folder: Path) -> None:
    write_file(folder, {"percent": {"formula": "100 * ACCURACY"}})
    result = CliRunner().invoke(cli, ["score", "after.jsonl", "--json"])
    document = json.loads(result.stdout)
    assert [*document["aggregates"]] == ["ACCURACY", "ROUGE"]
    # 25 of 40 answers are right.
    assert document["kpis"] == {"percent": {"value": 62.5, "reason": None}}
    assert mosaico.score("after.jsonl", config="mosaico.yaml").kpis == {"percent": 62.5}
    assert "mosaico.yaml: benchmark nightly sets metrics ACCURACY, ROUGE" in result.stderr


def test_python__columns_of_the_caller_win_over_those_of_the_file(folder: Path) -> None:
    path = write_file(folder, {}, metrics=["ACCURACY"], columns={"output": "bar"})
    rows = [{"id": "1", "bar": "wrong", "baz": "right", "gold": "right"}]
    gold = {"expected": "gold"}
    of_file = mosaico.score(rows, config=path, columns=gold)
    of_options = mosaico.score(
        rows, config=path, read_options=mosaico.ReadOptions(mapping={**gold, "output": "baz"})
    )
    assert (of_file["ACCURACY"], of_options["ACCURACY"]) == (0.0, 1.0)


def test_python__file_is_read_only_where_it_is_named(folder: Path) -> None:
    write_file(folder, {"quality": {"formula": "ACCURACY", "minEffect": 0.9}})
    assert mosaico.gate("after.jsonl", baseline="before.jsonl").exit_code == 1
    judged = mosaico.gate(
        "after.jsonl", baseline="before.jsonl", config="mosaico.yaml", benchmark="nightly"
    )
    assert judged.exit_code == 0
    assert any("mosaico.yaml: benchmark nightly sets" in text for text in judged.sentences)
    compared = mosaico.compare("before.jsonl", "after.jsonl", config="mosaico.yaml")
    assert compared.metric == "quality"


TESTS = """
from pathlib import Path

import pytest

ITEMS = [{"id": str(n), "input": str(n), "expected": "yes"} for n in range(40)]
WRONG = int(Path("wrong.txt").read_text())

@pytest.mark.mosaico(items=ITEMS)
def test_answers(item):
    return "no" if int(item.input) < WRONG else "yes"

@pytest.mark.mosaico(items=ITEMS)
def test_assertions(item):
    assert int(item.input) >= WRONG
"""


def test_pytest__file_judges_answers_and_leaves_assertions_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "test_bot.py").write_text(TESTS)
    (folder / "wrong.txt").write_text("3")
    assert run_inner_pytest("--mosaico-update-baseline") == 0
    (folder / "wrong.txt").write_text("15")
    write_file(folder, {"quality": {"formula": "ACCURACY", "minEffect": 0.9}})
    capsys.readouterr()
    assert run_inner_pytest() == 1
    output = capsys.readouterr().out
    # The limit of the file lets the answers pass; the other test fails by its assertions.
    assert "1 failed, 1 passed" in output
    assert "mosaico.yaml: benchmark nightly sets" in output
    assert run_inner_pytest("--mosaico-config", "none") == 1
    assert "2 failed" in capsys.readouterr().out
