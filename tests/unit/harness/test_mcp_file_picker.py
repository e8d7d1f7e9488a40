"""The file picker: favorites, folders and labels."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mosaico.core.console.files import UnreadableInput
from mosaico.core.errors import UnusableInput
from mosaico.harness.mcp.cli.file_picker import (
    Favorite,
    PickerChoice,
    ShowPicker,
    iter_benchmark_files,
    pick_file,
    read_favorites,
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with visible and hidden benchmark files."""
    project = tmp_path / "project"
    for name in ("b.yaml", "a.yml", "deep/c.yaml", "notes.txt", ".hidden.yaml", ".git/d.yaml"):
        path = tmp_path / "benches" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("description: |\n  what  it\n  is for\n")
    (project / "config").mkdir(parents=True)
    monkeypatch.chdir(project)


def choosing(*labels: str) -> ShowPicker:
    """A user who picks these labels in order, then cancels."""
    remaining_labels = list(labels)

    def pick(_: str, choices: Sequence[PickerChoice]) -> PickerChoice | None:
        if not remaining_labels:
            return None
        label = remaining_labels.pop(0)
        return next(choice for choice in choices if choice.label.startswith(label))

    return pick


def favourites(text: str, path: str = "config/ot-bench.yaml") -> None:
    Path(path).write_text(text)


BENCHES = Favorite(name="all", path="../benches")


def test_iter_benchmark_files__skips_hidden_files_and_folders() -> None:
    paths = [str(path) for path in iter_benchmark_files(Path("../benches"))]
    assert paths == ["../benches/a.yml", "../benches/b.yaml", "../benches/deep/c.yaml"]


def test_pick_file__file_favorite_needs_one_choice() -> None:
    file = Favorite(name="first", path="../benches/b.yaml")
    assert pick_file([BENCHES, file], choosing("first")) == Path("../benches/b.yaml")


def test_pick_file__folder_opens_second_list_with_descriptions() -> None:
    offered = []

    def pick(question: str, choices: Sequence[PickerChoice]) -> PickerChoice | None:
        offered.append((question, [choice.label for choice in choices]))
        return choices[-1]

    assert pick_file([BENCHES], pick) == Path("../benches/deep/c.yaml")
    assert offered == [
        ("Benchmark", ["all"]),
        ("File", [f"{name} - what it is for" for name in ("a.yml", "b.yaml", "deep/c.yaml")]),
    ]


def test_read_favorites__environment_variable_overrides_project_file() -> None:
    favourites("favorites: [{name: project, path: a}]")
    favourites("favorites: [{name: other, path: b}]", "other.yaml")
    assert [favorite.name for favorite in read_favorites({})] == ["project"]
    assert [favorite.name for favorite in read_favorites({"OT_BENCH_CONFIG": "other.yaml"})] == [
        "other"
    ]
    with pytest.raises(UnreadableInput):
        read_favorites({"OT_BENCH_CONFIG": "nowhere.yaml"})


@pytest.mark.parametrize("text", [None, "", "favorites: []"])
def test_read_favorites__missing_or_empty_file_is_an_error(text: str | None) -> None:
    if text is not None:
        favourites(text)
    with pytest.raises(
        UnusableInput, match=r"no favorites are configured in config/ot-bench\.yaml"
    ):
        read_favorites({})


@pytest.mark.parametrize(
    "text", ["favorites: [{name: x}]", "favorite: []", "favorites: [", "- a", "favorites: x"]
)
def test_read_favorites__invalid_file_is_named(text: str) -> None:
    favourites(text)
    with pytest.raises(UnusableInput, match=r"config/ot-bench\.yaml"):
        read_favorites({})
