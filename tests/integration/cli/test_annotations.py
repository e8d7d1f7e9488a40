"""`mosaico annotations`: judge an answer, list, export, and import what was exported."""

import json
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Shell
from tests.support.service import JSON, Service, pair


@pytest.fixture
def run(service: Service) -> JSON:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    service.upload([pair(number) for number in range(4)])
    return service.complete_run()


def judge(mosaico: Shell, run: JSON, number: int, judgement: str, *options: str) -> None:
    mosaico.ok(
        "annotations", "add", "--run", "latest", "--trace", f"t-{number}", "--judgement", judgement, *options
    )  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_annotations__are_added_listed_exported_and_imported(
    mosaico: Shell, service: Service, run: JSON, tmp_path: Path, ending: str
) -> None:
    judge(
        mosaico, run, 0, "partly", "--score", "0.5", "--note", "=half, of it", "--corrected", "a\nb"
    )
    judge(mosaico, run, 1, "wrong", "--expected-is-wrong")
    listed = mosaico.ok("annotations", "list", "--judgement", "wrong", "--json")
    [wrong] = json.loads(listed.stdout)["items"]
    assert (wrong["traceId"], wrong["expectedIsWrong"]) == ("t-1", True)
    file = tmp_path / f"annotations.{ending}"
    mosaico.ok("annotations", "export", file, "--run", run["id"])
    before = service.list_items("/annotations")
    for row in before:
        mosaico.ok("annotations", "delete", row["id"], "--yes")
    imported = mosaico.ok("annotations", "import", file)
    assert "2 annotations are stored" in imported.stderr
    kept = ("traceId", "judgement", "score", "note", "correctedAnswer", "expectedIsWrong")
    after = service.list_items("/annotations")
    assert sorted([row[name] for name in kept] for row in after) == sorted(
        [row[name] for name in kept] for row in before
    )


def test_import__of_a_file_that_is_not_there_is_an_error(mosaico: Shell) -> None:
    refused = mosaico("annotations", "import", "nowhere.csv")
    assert refused.exit_code != 0
    assert "nowhere.csv cannot be read" in refused.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runId,traceId,judgement\nRUN,t-0,right\nRUN,t-1,good\n", ["row 2", "1 rows are stored"]),
        ("runId,traceId,judgement\nRUN,t-9,right\n", ["row 1", "t-9"]),
        ("traceId,judgement\nt-0,right\n", ["row 1", "runId"]),
        ("runId,traceId,judgement,score\nRUN,t-0,right,high\n", ["row 1", "score"]),
    ],
)
def test_import__says_which_row_is_wrong(
    mosaico: Shell, run: JSON, tmp_path: Path, text: str, words: list[str]
) -> None:
    file = tmp_path / "annotations.csv"
    file.write_text(text.replace("RUN", run["id"]), encoding="utf-8")
    refused = mosaico("annotations", "import", file)
    assert refused.exit_code != 0
    assert all(word in refused.stderr for word in words), refused.stderr


def test_judges__are_a_gate_of_their_agreement(mosaico: Shell, service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=[{"key": "SCORE", "options": {"name": "tone", "better": "higher", "range": "0..1"}}]
    )
    service.upload([pair(number, scores={"tone": float(number < 3)}) for number in range(4)])
    run = service.complete_run()
    benchmark = run["benchmarkId"]
    # Nobody has annotated an answer: nothing says that the judge is good.
    assert mosaico("annotations", "judges", benchmark, "--min-agreement", "0").exit_code == 3
    for number in range(4):
        judge(mosaico, run, number, "right" if number < 2 else "wrong")
    below = mosaico("annotations", "judges", benchmark, "--min-agreement", "0.8")
    assert below.exit_code == 3
    # Four answers are too few for the intervals, and for a corrected mean.
    assert 'SCORE["tone"]: same, kappa, bias: ' in below.stderr
    assert 'SCORE["tone"]: corrected: ' in below.stderr
    mosaico.ok("annotations", "judges", benchmark, "--min-agreement", "0.75")
    [shown] = json.loads(mosaico.ok("annotations", "judges", benchmark, "--json").stdout)
    assert (shown["share"]["value"], shown["tooKind"]) == (0.75, 1)
