"""Trace source `harness`: configuration errors fail before the first request to a model."""

import base64
import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.resources import Resources
from mosaico.harness.budget import UsedBudget
from mosaico.harness.harness_config import BashHarnessSettings
from mosaico.traces.registry import TRACE_SOURCES, CollectionFailed, TracePage, TraceQuery

pytestmark = pytest.mark.usefixtures("plugins")

TASKS = [
    {"id": name, "category": "c", "prompt": name, "expectations": [{"check": "tool_calls_max:9"}]}
    for name in ("first", "second", "third")
]
# Without an entry for `second`, whose attempt therefore errors.
SCRIPT = [{"id": "first", "turns": []}, {"id": "third", "turns": [["true"]]}]


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def dataset_folder(tmp_path: Path) -> Path:
    """The operator's folder of datasets."""
    root = tmp_path / "datasets"
    root.mkdir()
    write_lines(root / "tasks.jsonl", TASKS)
    write_lines(root / "script.jsonl", SCRIPT)
    return root


def pages(
    dataset_folder: Path | None,
    dataset: str | None = "tasks.jsonl",
    cursor: str | None = None,
    **settings: Any,
) -> list[TracePage]:
    resources = Resources(
        # Never connected: the source reads files only.
        db=Database("postgresql+psycopg://nobody@localhost/none"),
        secrets=SecretBox.from_keys([base64.b64encode(bytes(range(32))).decode()]),
        data_dir=Path("/nonexistent"),
        options={"harness_dir": str(dataset_folder)} if dataset_folder else {},
    )
    harness = BashHarnessSettings(**{"provider": "scripted", "model": "script.jsonl", **settings})
    query = TraceQuery(dataset_ref=dataset, run_name=None, harness=harness)
    return list(TRACE_SOURCES.get("harness").open(resources).pages(query, cursor))


def collection_error_code(dataset_folder: Path | None, **settings: Any) -> str:
    with pytest.raises(CollectionFailed) as caught:
        pages(dataset_folder, **settings)
    assert dataset_folder is None or str(dataset_folder) not in caught.value.detail
    return caught.value.error_code


def test_harness_source__file_outside_folder_is_refused(dataset_folder: Path) -> None:
    """test_folder.py tests the refused names one by one."""
    write_lines(dataset_folder.parent / "outside.jsonl", TASKS)
    (dataset_folder / "linked.jsonl").symlink_to(dataset_folder.parent / "outside.jsonl")
    for name in ("../outside.jsonl", "linked.jsonl"):
        assert collection_error_code(dataset_folder, dataset=name) == "DATASET_NOT_FOUND"
        assert collection_error_code(dataset_folder, model=name) == "DATASET_NOT_FOUND"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_harness_source__missing_key_fails_before_first_attempt(
    dataset_folder: Path, provider: str
) -> None:
    assert collection_error_code(dataset_folder, provider=provider, model="m") == "MISSING_KEY"


def test_harness_source__held_back_attempts_are_counted_when_they_are_made(
    dataset_folder: Path,
) -> None:
    """`second` has no score: it comes with the last page, and progress shows it before."""
    *settled, last = pages(dataset_folder, concurrency=1)
    assert [trace.item_id for trace in last.traces] == ["second"]
    assert sum(len(page.traces) for page in settled) == 2
    assert settled[-1].held_back == 1
    assert last.held_back == 0


def test_harness_source__resumed_run_counts_finished_attempts_and_usage(
    dataset_folder: Path,
) -> None:
    """`second` is done and 900 of 1000 tokens are used; `first` needs more than the other 100."""
    digest = next(page.cursor for page in pages(dataset_folder, concurrency=1) if page.cursor)
    digest = digest.partition(":")[0]
    remaining_pages = pages(
        dataset_folder, cursor=f"{digest}:1:800+100+0.05", concurrency=1, run_tokens=1000
    )
    outputs = [trace for page in remaining_pages for trace in page.traces]
    assert [(trace.item_id, trace.error) for trace in outputs] == [
        ("first", None),
        ("third", "the run reached its limit of tokens"),
    ]
    assert remaining_pages[-1].cursor is None


def test_cursor__holds_finished_attempts_and_fingerprint() -> None:
    source = importlib.import_module("mosaico.traces.sources.harness")
    # The cursor of 1000 attempts stays short, whatever their order.
    for attempt_indexes, text in [({0}, "0"), ({0, 1, 2, 4}, "0-2,4"), ({3, 7, 8, 12}, "3,7-8,12")]:
        assert source._ranges_text(attempt_indexes) == text
        usage = UsedBudget(input_tokens=1200, output_tokens=34, usd=0.05)
        assert source._read_cursor(f"digest:{text}:1200+34+0.05", "digest") == (
            attempt_indexes,
            usage,
        )
    empty_cursor = (set[int](), UsedBudget())
    assert source._read_cursor("digest:", "digest") == empty_cursor
    assert source._read_cursor(None, "digest") == empty_cursor
    with pytest.raises(CollectionFailed) as caught:
        source._read_cursor("digest:0-2:7+7", "other")
    assert caught.value.error_code == "DATASET_CHANGED"
