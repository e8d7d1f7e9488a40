"""What a benchmark orders of a model is read and refused before anything is asked."""

import base64
import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.resources import Resources
from app.harness.bash.schemas import BashHarnessSettings
from app.harness.budget import UsedBudget
from app.traces.registry import TRACE_SOURCES, CollectionFailed, TracePage, TraceQuery

pytestmark = pytest.mark.usefixtures("plugins")

TASKS = [
    {"id": name, "category": "c", "prompt": name, "expectations": [{"check": "tool_calls_max:9"}]}
    for name in ("first", "second", "third")
]
PLAY = [{"id": "first", "turns": []}, {"id": "third", "turns": [["true"]]}]


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's folder."""
    root = tmp_path / "datasets"
    root.mkdir()
    write_lines(root / "tasks.jsonl", TASKS)
    write_lines(root / "play.jsonl", PLAY)
    return root


def pages(
    folder: Path | None, dataset: str | None = "tasks.jsonl", cursor: str | None = None, **how: Any
) -> list[TracePage]:
    resources = Resources(
        db=Database("postgresql+psycopg://nobody@localhost/none"),
        secrets=SecretBox.from_keys([base64.b64encode(bytes(range(32))).decode()]),
        data_dir=Path("/nonexistent"),
        options={"harness_dir": str(folder)} if folder else {},
    )
    harness = BashHarnessSettings(**{"provider": "scripted", "model": "play.jsonl", **how})
    query = TraceQuery(dataset_ref=dataset, run_name=None, harness=harness)
    return list(TRACE_SOURCES.get("harness").open(resources).pages(query, cursor))


def refusal(folder: Path | None, **how: Any) -> str:
    with pytest.raises(CollectionFailed) as caught:
        pages(folder, **how)
    assert folder is None or str(folder) not in caught.value.detail
    return caught.value.error_code


def test_harness_source__file_outside_folder_is_refused(folder: Path) -> None:
    """Which names those are is told in the unit tests of the folder."""
    write_lines(folder.parent / "outside.jsonl", TASKS)
    (folder / "linked.jsonl").symlink_to(folder.parent / "outside.jsonl")
    for name in ("../outside.jsonl", "linked.jsonl"):
        assert refusal(folder, dataset=name) == "DATASET_NOT_FOUND"
        assert refusal(folder, model=name) == "DATASET_NOT_FOUND"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_harness_source__missing_key_fails_before_first_attempt(
    folder: Path, provider: str
) -> None:
    assert refusal(folder, provider=provider, model="m") == "MISSING_KEY"


def test_harness_source__missing_folder_or_dataset_is_reported(folder: Path) -> None:
    assert refusal(None) == "HARNESS_NOT_CONFIGURED"
    assert refusal(folder, dataset=None) == "DATASET_NOT_FOUND"


def test_harness_source__unscored_attempts_come_last(folder: Path) -> None:
    """So that whoever goes on with a run that failed makes them again."""
    traces = [trace for page in pages(folder, concurrency=1) for trace in page.traces]
    assert [trace.item_id for trace in traces] == ["first", "third", "second"]
    assert traces[-1].error == "the script has no entry for this task"


def test_harness_source__resumed_run_counts_finished_attempts_and_usage(folder: Path) -> None:
    """`second` was done; of 1000 tokens 900 were spent, and `first` takes more than the rest."""
    digest = next(page.cursor for page in pages(folder, concurrency=1) if page.cursor)
    digest = digest.partition(":")[0]
    remaining_pages = pages(
        folder, cursor=f"{digest}:1:800+100+0.05", concurrency=1, run_tokens=1000
    )
    outputs = [trace for page in remaining_pages for trace in page.traces]
    assert [(trace.item_id, trace.error) for trace in outputs] == [
        ("first", None),
        ("third", "the run reached its limit of tokens"),
    ]
    assert remaining_pages[-1].cursor is None


def test_cursor__holds_finished_attempts_and_fingerprint() -> None:
    source = importlib.import_module("app.traces.sources.harness")
    for places, text in [({0}, "0"), ({0, 1, 2, 4}, "0-2,4"), ({3, 7, 8, 12}, "3,7-8,12")]:
        assert source._ranges_text(places) == text
        spent = UsedBudget(input_tokens=1200, output_tokens=34, usd=0.05)
        assert source._read_cursor(f"digest:{text}:1200+34+0.05", "digest") == (places, spent)
    nothing = (set[int](), UsedBudget())
    assert source._read_cursor("digest:", "digest") == nothing
    assert source._read_cursor(None, "digest") == nothing
    with pytest.raises(CollectionFailed) as caught:
        source._read_cursor("digest:0-2:7+7", "other")
    assert caught.value.error_code == "DATASET_CHANGED"
