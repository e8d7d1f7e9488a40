"""Tables of results in each format: values, scores, trials, and what nothing reads."""

import csv
import json
from pathlib import Path

import pytest

from mosaico.traces.files.import_file import InvalidImport
from mosaico.traces.files.ndjson import iter_traces
from mosaico.traces.files.trace_file import TraceReader
from tests.support.import_files import import_path, refuse_plugin, write_file, write_json_lines


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('[{"id": 1, "output": "x"}]', "json"),
        ('{"data": [{"id": 1, "output": "x"}], "version": 2}', "json"),
        ('{"id": 1, "output": "x"}', "json"),
        ('{"id": 1, "output": "x"}\n{"id": 2, "output": "y"}\n', "jsonl"),
        ("id,output\n1,x\n", "csv"),
        ("id\toutput\n1\tx\n", "csv"),
    ],
)
def test_format__is_recognized_by_content(tmp_path: Path, content: str, name: str) -> None:
    table = import_path(write_file(tmp_path / "results", content))
    assert (table.format, table.of("1").output) == (name, "x")


def test_json_lines__values_become_texts(tmp_path: Path) -> None:
    path = write_json_lines(
        tmp_path / "a.jsonl",
        {"id": 1, "output": {"b": 1, "a": "é"}, "expected": 4.0},
        {"id": 2.0, "output": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}]},
        {"id": 3, "output": None, "expected": "y"},
    )  # fmt: skip
    table = import_path(path)
    assert table.of("1").output == '{"a": "é", "b": 1}'
    assert (table.of("1").expected_output, table.of("2").output) == ("4", "x")
    assert table.of("3").output == ""


def test_parquet__equals_the_same_table_as_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"id": ["a", "b"], "output": ["x", None], "gold": ["x", "y"], "cost": [0.5, None]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    assert import_path(tmp_path / "a.parquet").traces == import_path(tmp_path / "a.csv").traces


def test_upload_lines__are_the_traces_of_a_table_or_a_trace_file_as_it_is(tmp_path: Path) -> None:
    table = write_file(
        tmp_path / "a.csv", "id,output,expected,cost,passed\nq1,x,y,0.5,true\nq2,,z,,no\n"
    )
    reader = TraceReader(lambda _: None, refuse_plugin)
    with reader.upload_lines(table) as lines:
        assert list(iter_traces(lines)) == import_path(table).traces
    content = b'{"traceId": "t-1"}\n{"traceId": 2}\n'
    (tmp_path / "a.jsonl").write_bytes(content)
    # The service checks the lines of a trace file itself.
    with reader.upload_lines(tmp_path / "a.jsonl") as lines:
        assert b"".join(lines) == content


def test_scores__of_an_object_are_read_from_json_and_csv(tmp_path: Path) -> None:
    """A column of objects is read like `scores` of an upload; a column of numbers stays a score."""
    lines = write_json_lines(
        tmp_path / "a.jsonl",
        {"id": 1, "output": "x", "scores": {"Tone": 0.5, "Depth": 1, "Empty": None}},
        {"id": 2, "output": "y", "scores": None},
    )
    table = import_path(lines)
    assert table.columns["scores"] == "scores"
    assert (table.of("1").scores, table.of("2").scores) == ({"Tone": 0.5, "Depth": 1.0}, {})
    cells = write_file(
        tmp_path / "a.csv", 'id,output,scores\n1,x,"{""Tone"": 0.5, ""Depth"": 1}"\n2,y,\n'
    )
    assert [t.scores for t in import_path(cells).traces] == [t.scores for t in table.traces]
    numbers = write_file(tmp_path / "b.csv", "id,output,scores\n1,x,0.5\n")
    assert import_path(numbers).of("1").scores == {"scores": 0.5}
    named = write_json_lines(tmp_path / "c.jsonl", {"id": 1, "output": "x", "m": {"Tone": 1}})
    assert import_path(named, scores="m").of("1").scores == {"Tone": 1.0}


def test_scores__that_are_no_numbers_are_named_or_rejected(tmp_path: Path) -> None:
    rows = [{"id": 1, "output": "x", "scores": {"Tone": "polite"}}]
    table = import_path(write_json_lines(tmp_path / "a.jsonl", *rows))
    assert any(
        "'scores' is not used as scores: it holds {'Tone': 'polite'}" in n for n in table.notes
    )
    assert not any("that are not used" in note for note in table.notes)
    late = [{"id": n, "output": "x", "scores": {"Tone": 1}} for n in range(100)] + rows
    with pytest.raises(InvalidImport, match=r"line 101, column 'scores': .* an object of numbers"):
        import_path(write_json_lines(tmp_path / "b.jsonl", *late))


@pytest.mark.parametrize(
    ("rows", "trials"),
    [
        ("a,x\na,y\nb,z\n", "1 item with 2 trials"),
        ("a,x\na,y\nb,z\nb,z\nc,x\n", "2 items, 2 trials each"),
        ("a,x\na,y\na,z\nb,z\nb,x\n", "2 items, 2 to 3 trials each"),
    ],
)
def test_rows_of_the_same_item__are_counted_as_its_trials(
    tmp_path: Path, rows: str, trials: str
) -> None:
    path = tmp_path / "repeated.csv"
    path.write_text(f"id,output\n{rows}")
    lines: list[str] = []
    with TraceReader(lines.append, lambda _: None).open(path) as traces:
        list(traces)
    assert lines[-1].endswith(f"rows of the same item are its trials: {trials}")


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_answer__is_missing_only_where_none_was_recorded(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"id": "answered", "question": "q", "answer": "x"},
        {"id": "empty", "question": "q", "answer": ""},
        {"id": "said nothing", "question": "q", "answer": None},
        {"id": "never asked"},
    ]
    text = "\n".join(map(json.dumps, rows)) if suffix == ".jsonl" else json.dumps(rows)
    traces = import_path(write_file(tmp_path / f"a{suffix}", text)).traces
    answers = {trace.item_id: trace.output for trace in traces}
    assert answers == {"answered": "x", "empty": "", "said nothing": "", "never asked": None}
