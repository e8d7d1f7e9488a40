"""Finds benchmark files by name or pattern, or lets the user pick one from favorites."""

import glob
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer
from pydantic import Field, ValidationError

from mosaico.core.console.files import UnreadableInput, open_input
from mosaico.core.console.terminal import WrongUsage, escape_line, is_interactive, print_status
from mosaico.core.errors import UnusableInput
from mosaico.harness.mcp.config import BenchmarkSection
from mosaico.harness.mcp.yaml_parser import MAX_BYTES, InvalidYaml, parse_yaml

DEFAULT_CONFIG: Final = Path("config/ot-bench.yaml")
SUFFIXES: Final = (".yaml", ".yml")


class Favorite(BenchmarkSection):
    """A benchmark file or folder, and its label in the picker."""

    name: Annotated[str, Field(min_length=1)]
    path: Annotated[str, Field(min_length=1)]


class FavoritesFile(BenchmarkSection):
    """The content of the favorites file."""

    favorites: Annotated[list[Favorite], Field(default_factory=list)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerChoice:
    """An entry of the picker."""

    label: str
    path: Path


ShowPicker: TypeAlias = Callable[[str, Sequence[PickerChoice]], PickerChoice | None]
"""Shows a question and entries to the user; returns None when the user cancels."""


def resolve_files(names: Sequence[str]) -> list[Path]:
    """The files with these names or glob patterns, in order and without duplicates.

    Raises: UnreadableInput for a missing file or a pattern without a match.
    """
    paths: dict[Path, Path] = {}
    for name in names:
        if Path(name).is_file():
            paths.setdefault(Path(name).resolve(), Path(name))
            continue
        matches = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else []  # noqa: PTH207 - patterns may be absolute
        files = [Path(match) for match in matches if Path(match).is_file()]
        if not files:
            raise UnreadableInput(
                f"{name}: no such file",
                hint="name an existing file, or a pattern that matches files",
            )
        for file in files:
            paths.setdefault(file.resolve(), file)
    return list(paths.values())


def read_favorites(environment: Mapping[str, str]) -> list[Favorite]:
    """The favorites of the file in `OT_BENCH_CONFIG`, else of `config/ot-bench.yaml`.

    Raises: UnusableInput without favorites, UnreadableInput when the configured file is missing.
    """
    configured_path = environment.get("OT_BENCH_CONFIG")
    path = Path(configured_path) if configured_path else DEFAULT_CONFIG
    if not configured_path and not path.exists():
        raise _no_favorites(path)
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    try:
        favorites = FavoritesFile.model_validate(parse_yaml(raw).value or {}).favorites
    except InvalidYaml as bad:
        position = f"{path}:{bad.position.line}:{bad.position.column}"
        raise UnusableInput(f"{position}: {bad.text}", hint=_FORMAT_HINT) from None
    except ValidationError as error:
        location = "/".join(map(str, error.errors()[0]["loc"]))
        raise UnusableInput(
            f"{path}: {location or 'the file'} is invalid", hint=_FORMAT_HINT
        ) from None
    if not favorites:
        raise _no_favorites(path)
    return favorites


def pick_favorite(environment: Mapping[str, str]) -> Path:
    """The file that the user chooses in the terminal; exits with 0 when the user cancels.

    Raises: WrongUsage without an interactive terminal, and the errors of the favorites.
    """
    favorites = read_favorites(environment)
    if not (is_interactive(sys.stdin) and is_interactive(sys.stdout)):
        raise WrongUsage(
            "--tui needs an interactive terminal", hint="name the file instead of --tui"
        )
    path = pick_file(favorites, _show_picker)
    if path is None:
        print_status("no file was chosen")
        raise typer.Exit(0)
    return path


def pick_file(favorites: Sequence[Favorite], show_picker: ShowPicker) -> Path | None:
    """The file that the user picks; a folder opens a second picker. Raises UnreadableInput."""
    choices = [
        PickerChoice(label=_label(favorite.name, Path(favorite.path)), path=Path(favorite.path))
        for favorite in favorites
    ]
    choice = show_picker("Benchmark", choices)
    if choice is None or not choice.path.is_dir():
        return choice.path if choice else None
    files = list(iter_benchmark_files(choice.path))
    if not files:
        raise UnreadableInput(f"{choice.path} contains no YAML file", hint="name another folder")
    file_choices = [
        PickerChoice(label=_label(str(f.relative_to(choice.path)), f), path=f) for f in files
    ]
    choice = show_picker("File", file_choices)
    return choice.path if choice else None


def iter_benchmark_files(folder: Path) -> Iterator[Path]:
    """The YAML files below a folder, sorted by name, without hidden files and folders."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield Path(root) / name


def _show_picker(question: str, choices: Sequence[PickerChoice]) -> PickerChoice | None:
    # Takes long to import, and only this option needs it.
    import questionary

    answer: PickerChoice | None = questionary.select(
        question,
        choices=[questionary.Choice(escape_line(choice.label), value=choice) for choice in choices],
    ).ask()
    return answer


def _label(name: str, path: Path) -> str:
    description = read_description(path)
    return f"{name} - {description}" if description else name


def read_description(path: Path) -> str | None:
    """The description of a benchmark file; None when it is missing or the file is invalid."""
    try:
        with path.open("rb") as file:
            value = parse_yaml(file.read(MAX_BYTES + 1)).value
    except (OSError, InvalidYaml):
        return None
    description = value.get("description") if isinstance(value, dict) else None
    return (
        " ".join(description.split())
        if isinstance(description, str) and description.strip()
        else None
    )


_FORMAT_HINT: Final = "write `favorites:` and below it entries with `name:` and `path:`"


def _no_favorites(path: Path) -> UnusableInput:
    return UnusableInput(f"no favorites are configured in {path}", hint=_FORMAT_HINT)
