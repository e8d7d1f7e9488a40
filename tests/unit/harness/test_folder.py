"""read_below: a user reads the plain files of the operator's folder and no other file."""

import os
from pathlib import Path

import pytest

from mosaico.core.errors import NotFound
from mosaico.harness import operator_folder
from mosaico.harness.operator_folder import read_below


@pytest.fixture
def dataset_folder(tmp_path: Path) -> Path:
    """A folder with a dataset, links that lead out of it, and a pipe."""
    root = tmp_path / "datasets"
    (root / "nightly").mkdir(parents=True)
    (root / "nightly" / "tasks.jsonl").write_bytes(b"mine")
    (tmp_path / "outside.jsonl").write_bytes(b"not yours")
    (root / "linked.jsonl").symlink_to(tmp_path / "outside.jsonl")
    (root / "within.jsonl").symlink_to(root / "nightly" / "tasks.jsonl")
    (root / "through").symlink_to(tmp_path)
    # To open a pipe without a writer blocks for ever, unless it is opened with O_NONBLOCK.
    os.mkfifo(root / "pipe")
    return root


def test_read_below__reads_file_of_folder(dataset_folder: Path) -> None:
    assert read_below(dataset_folder, "nightly/tasks.jsonl") == b"mine"


@pytest.mark.parametrize(
    "name",
    [
        "/etc/hosts",
        "../outside.jsonl",
        "nightly/../../outside.jsonl",
        "linked.jsonl",
        # Refused as well: a link could be replaced between the check and the opening.
        "within.jsonl",
        "through/outside.jsonl",
        "nightly",
        "absent.jsonl",
        "nightly//tasks.jsonl",
        "./nightly/tasks.jsonl",
        "nightly/tasks.jsonl/",
        "pipe",
        "",
        ".",
        "..",
        "a\0b",
        # Names have at most 255 bytes: the system refuses this one with another error than ENOENT.
        "x" * 300,
        "nightly/tasks.jsonl/more",
    ],
)
def test_read_below__refuses_links_and_other_paths(dataset_folder: Path, name: str) -> None:
    with pytest.raises(NotFound) as caught:
        read_below(dataset_folder, name)
    assert str(dataset_folder) not in caught.value.detail


def test_read_below__refuses_large_file(
    dataset_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_folder, "MAX_BYTES", 3)
    with pytest.raises(NotFound, match="at most 3 bytes"):
        read_below(dataset_folder, "nightly/tasks.jsonl")


def test_read_below__closes_refused_file(dataset_folder: Path) -> None:
    # A server that leaks a descriptor with each refused name would run out of them.
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("pipe", "nightly", "linked.jsonl", "through/outside.jsonl"):
        with pytest.raises(NotFound):
            read_below(dataset_folder, name)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
