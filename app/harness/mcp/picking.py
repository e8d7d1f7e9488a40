"""Benchmark files by name, by pattern, or picked from favourites on a terminal."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field, ValidationError

from app.core.console.input_files import UnreadableInput, open_input
from app.core.errors import AppError
from app.harness.mcp.config import Part
from app.harness.mcp.yaml_text import MAX_BYTES, BadYaml, parse_yaml

CONFIG: Final = Path("config/ot-bench.yaml")
SUFFIXES: Final = (".yaml", ".yml")


class BadFavourites(AppError):
    """The file of favourites cannot be used; write `favorites:` with `name` and `path` each."""

    code = "bad-favorites"
    status = 422
    exit_code = 2


class NoFavourites(AppError):
    """No favourites are configured; name benchmark files, or write some into the configuration."""

    code = "no-favorites"
    status = 404
    exit_code = 2


class Favourite(Part):
    """A benchmark file, or a folder of them, and how the picker calls it."""

    name: Annotated[str, Field(min_length=1)]
    path: Annotated[str, Field(min_length=1)]


class Favourites(Part):
    """The configuration of the command."""

    favorites: Annotated[list[Favourite], Field(default_factory=list)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A line of a picker."""

    label: str
    path: Path


Pick: TypeAlias = Callable[[str, Sequence[Choice]], Choice | None]
"""Asks a person; None when nothing was chosen."""


def find_files(named: Sequence[str]) -> list[Path]:
    """The files of these names and patterns in their order, each once.

    Raises: UnreadableInput for a name that is no file, and for a pattern that nothing matches.
    """
    found: dict[Path, Path] = {}
    for name in named:
        if Path(name).is_file():
            found.setdefault(Path(name).resolve(), Path(name))
            continue
        matching = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else []  # noqa: PTH207 - patterns may be absolute
        files = [Path(each) for each in matching if Path(each).is_file()]
        if not files:
            raise UnreadableInput(
                f"{name}: no such file", hint="name files or patterns that match some"
            )
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def read_favourites(environment: Mapping[str, str]) -> list[Favourite]:
    """Those of `OT_BENCH_CONFIG`, else of `config/ot-bench.yaml`.

    Raises: NoFavourites, BadFavourites, UnreadableInput when the file that was named is missing.
    """
    named = environment.get("OT_BENCH_CONFIG")
    path = Path(named) if named else CONFIG
    if not named and not path.exists():
        raise _none(path)
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    try:
        found = Favourites.model_validate(parse_yaml(raw).value or {}).favorites
    except BadYaml as bad:
        place = f"{path}:{bad.place.line}:{bad.place.column}"
        raise BadFavourites(f"{place}: {bad.text}", hint=_HOW) from None
    except ValidationError as error:
        where = "/".join(map(str, error.errors()[0]["loc"]))
        raise BadFavourites(f"{path}: {where or 'the file'} cannot be used", hint=_HOW) from None
    if not found:
        raise _none(path)
    return found


def pick_file(favourites: Sequence[Favourite], pick: Pick) -> Path | None:
    """What a person picks; a folder opens a second picker. Raises NoFavourites, UnreadableInput."""
    choices = [
        Choice(label=_label(each.name, Path(each.path)), path=Path(each.path))
        for each in favourites
    ]
    chosen = pick("Benchmark", choices)
    if chosen is None or not chosen.path.is_dir():
        return chosen.path if chosen else None
    files = list(bench_files(chosen.path))
    if not files:
        raise UnreadableInput(f"{chosen.path} holds no YAML file", hint="name another folder")
    below = [Choice(label=_label(str(f.relative_to(chosen.path)), f), path=f) for f in files]
    chosen = pick("File", below)
    return chosen.path if chosen else None


def bench_files(folder: Path) -> Iterator[Path]:
    """The YAML files below a folder by name; hidden folders in it are passed over."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield Path(root) / name


def _label(name: str, path: Path) -> str:
    said = describe(path)
    return f"{name} - {said}" if said else name


def describe(path: Path) -> str | None:
    """The description of a benchmark file; None when it has none or cannot be read."""
    try:
        with path.open("rb") as file:
            value = parse_yaml(file.read(MAX_BYTES + 1)).value
    except (OSError, BadYaml):
        return None
    said = value.get("description") if isinstance(value, dict) else None
    return " ".join(said.split()) if isinstance(said, str) and said.strip() else None


_HOW: Final = "write `favorites:` and below it `- name: …` with `path: …`"


def _none(path: Path) -> NoFavourites:
    return NoFavourites(f"no favorites are configured in {path}", hint=_HOW)
