"""`mosaico runs export` and `mosaico history`: rows for other programs."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.cli.conftest import Shell
from tests.support.service import Service, pair

EXPECTED = [
    {"itemId": "item-1", "output": "a b c d", "ROUGE": 1.0, "tags": ""},
    {"itemId": "item-2", "output": "=a b", "ROUGE": 2 / 3, "tags": "hard, german"},
]


@pytest.fixture
def completed_run(service: Service) -> str:
    """A run over two traces: ROUGE-L of "a b" against "a b c d" is 2/3."""
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE", "unit": "ratio"}]
    )
    second = pair(2, output="=a b") | {"itemId": "item-2", "tags": ["hard", "german"]}
    service.upload([pair(1) | {"itemId": "item-1"}, second])
    return str(service.complete_run()["id"])


def test_export__csv_jsonl_and_parquet_have_the_same_rows(
    mosaico: Shell, completed_run: str, tmp_path: Path
) -> None:
    text = mosaico.ok("runs", "export", "latest").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    # A spreadsheet would run the text as a formula.
    assert rows[1].pop("output") == "'=a b"
    assert [float(row["ROUGE"]) for row in rows] == pytest.approx([1, 2 / 3])
    assert (rows[1]["tags"], rows[1]["itemId"]) == ("hard, german", "item-2")
    for name in ("run.jsonl", "run.parquet"):
        written = mosaico.ok("runs", "export", completed_run, name)
        assert (written.stdout, name in written.stderr) == ("", True)
    lines = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert [line["tags"] for line in lines] == [[], ["hard", "german"]]
    table = pq.read_table("run.parquet").to_pylist()
    assert [{name: row[name] for name in EXPECTED[0]} for row in table] == [
        row | {"ROUGE": pytest.approx(row["ROUGE"])} for row in EXPECTED
    ]


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.parquet"])
def test_export__is_read_by_compare(mosaico: Shell, completed_run: str, name: str) -> None:
    mosaico.ok("runs", "export", completed_run, name)
    compared = mosaico("compare", name, name, "--metrics", "ROUGE", "--no-html", "--json")
    metric = json.loads(compared.stdout)["metrics"][0]
    assert (metric["verdict"]["effect"], metric["verdict"]["value"]) == (
        0,
        pytest.approx((1 + 2 / 3) / 2),
    )


def test_export__a_failed_export_keeps_the_old_file(mosaico: Shell, service: Service) -> None:
    Path("run.csv").write_text("old")
    refused = mosaico("runs", "export", "nope", "run.csv")
    assert (refused.exit_code, Path("run.csv").read_text()) == (66, "old")
