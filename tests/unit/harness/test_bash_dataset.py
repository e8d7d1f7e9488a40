"""Datasets of bash tasks: valid lines, comments, and an error for each invalid line."""

import json
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.console.files import UnreadableInput
from mosaico.harness.bash.dataset import InvalidDataset, load_dataset, parse_dataset
from mosaico.harness.lint import LintSeverity
from tests.support.bash_eval import dataset_file, task

GOOD: dict[str, Any] = {
    "id": "a",
    "category": "c",
    "description": "d",
    "prompt": "p",
    "expectations": [{"check": "exit_code:0"}, {"check": "stdout_contains:x", "weight": 2}],
}


def lines(*values: Any) -> list[bytes]:
    return [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]


def error_text(value: Any) -> str:
    """The error message of the only line."""
    [finding] = parse_dataset(lines(value)).errors
    assert finding.line == 1
    return finding.text


def test_parse_dataset__line_is_task() -> None:
    [task] = parse_dataset(lines({**GOOD, "files": {"/a": "b"}, "system": "s"})).tasks
    assert (task.id, task.category, task.prompt, task.system) == ("a", "c", "p", "s")
    assert task.files == {"/a": "b"}
    assert [expectation.weight for expectation in task.expectations] == [1.0, 2.0]
    assert task.max_score() == 3.0


def test_parse_dataset__skips_blank_and_comment_lines() -> None:
    dataset = parse_dataset(lines(b"\n", b"# one", b"  // two", GOOD, b"", {**GOOD, "id": "b"}))
    assert [(entry.line, entry.task.id) for entry in dataset.entries] == [(4, "a"), (6, "b")]


def test_parse_dataset__skips_byte_order_mark() -> None:
    assert len(parse_dataset([b"\xef\xbb\xbf" + json.dumps(GOOD).encode()]).tasks) == 1


def test_parse_dataset__repeated_id_is_error() -> None:
    [finding] = parse_dataset(lines(GOOD, GOOD)).errors
    assert (finding.line, finding.text) == (2, "the id 'a' is already used on line 1")


def test_parse_dataset__unknown_key_is_warning_with_suggestion() -> None:
    dataset = parse_dataset(lines({**GOOD, "promt": "x"}))
    [finding] = dataset.findings
    assert finding.severity is LintSeverity.WARNING
    assert finding.text.startswith("the unknown key 'promt' is ignored. Did you mean prompt?")
    assert len(dataset.tasks) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": None}, "id is missing"),
        ({"prompt": " "}, "prompt is missing"),
        ({"prompt": 3}, "prompt must be a text"),
        ({"expectations": []}, "expectations must be a list with at least one item"),
        ({"expectations": ["exit_code:0"]}, "an expectation must be an object"),
        ({"expectations": [{"weight": 1}]}, "check is missing"),
        ({"expectations": [{"check": "a", "weight": -1}]}, "weight must be a number of at least 0"),
        (
            {"expectations": [{"check": "a", "weight": True}]},
            "weight must be a number of at least 0",
        ),
        ({"files": []}, "files must be an object"),
        ({"files": {"a": "b"}}, "the path 'a' in files must begin with /"),
        ({"files": {"/a": 1}}, "the file '/a' must be a text"),
    ],
)
def test_parse_dataset__invalid_task_is_error(changes: dict[str, Any], message: str) -> None:
    assert message in error_text({**GOOD, **changes})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "the line is not valid JSON"),
        (b"[1]", "is not a JSON object"),
        (b"\xff", "is not UTF-8"),
        (b'{"id": "a", "id": "b"}', "twice"),
        (b'{"id": "a", "x": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "nested deeper"),
    ],
)
def test_parse_dataset__invalid_json_is_error(line: bytes, message: str) -> None:
    assert message in error_text(line)


def test_parse_dataset__empty_dataset_is_error() -> None:
    [finding] = parse_dataset(lines(b"# nothing")).errors
    assert finding.line == 0


def test_load_dataset__lists_every_invalid_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join(lines(GOOD, b"{", {**GOOD, "id": "b", "prompt": None})))
    with pytest.raises(InvalidDataset) as refused:
        load_dataset(path)
    assert [item.pointer for item in refused.value.errors] == ["line 2", "line 3"]
    assert refused.value.exit_code == 2


def test_load_dataset__missing_file_raises_unreadable_input(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput):
        load_dataset(tmp_path / "nope.jsonl")


def test_content_hash__depends_on_what_the_model_sees() -> None:
    original = task(task_id="a")
    assert (
        original.content_hash()
        == task(task_id="a", category="other", description="x").content_hash()
    )
    assert original.content_hash() != task(task_id="b").content_hash()
    assert original.content_hash() != task(task_id="a", prompt="Else.").content_hash()
    assert original.content_hash() != task("exit_code:1", task_id="a").content_hash()
    assert original.content_hash() != task(task_id="a", files={"/a": ""}).content_hash()


@pytest.mark.parametrize(
    ("name", "tasks", "categories", "checks", "most"),
    [("eval-tasks-37.jsonl", 37, 10, 184, 184.0), ("eval-tasks-58.jsonl", 58, 15, 314, 314.0)],
)
def test_load_dataset__reads_original_datasets(
    name: str, tasks: int, categories: int, checks: int, most: float
) -> None:
    dataset = load_dataset(dataset_file(name))
    assert len(dataset.tasks) == tasks
    assert len({task.category for task in dataset.tasks}) == categories
    assert sum(len(task.expectations) for task in dataset.tasks) == checks
    assert sum(task.max_score() for task in dataset.tasks) == most
    assert dataset.findings == ()
