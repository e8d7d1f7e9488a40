"""The options of commands that tell how much whole runs vary."""

import glob
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.core.console.terminal import WrongUsage
from mosaico.traces.files.options import map_source

if TYPE_CHECKING:
    from mosaico.traces.files.result_sources import ResultSource

HistoryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="Results of an earlier run of the unchanged agent, oldest first: they tell how much whole runs vary, as a stored"
        " run knows from its series. Repeatable; a quoted pattern such as 'runs/*.csv' is sorted by name, without the two compared files.",
    ),
]


def earlier_runs(
    history: Sequence[str] | None,
    base_map: list[str] | None,
    baseline: Path,
    candidate: Path,
) -> "list[ResultSource]":
    """The files of earlier runs, oldest first, with the columns of the baseline, which is one more of them.

    Raises: `WrongUsage` for the candidate among them, and for a pattern without a file.
    """
    compared = {baseline.resolve(), candidate.resolve()}
    paths = [path for text in history or () for path in _files_of(text, compared)]
    if candidate.resolve() in {path.resolve() for path in paths}:
        raise WrongUsage(
            f"{candidate} is the candidate, and no earlier run", hint="give results from before it"
        )
    others = [path for path in dict.fromkeys(paths) if path.resolve() != baseline.resolve()]
    return [map_source(path, base_map) for path in others]


def _files_of(text: str, compared: Collection[Path]) -> list[Path]:
    if not glob.has_magic(text) or Path(text).exists():
        return [Path(text)]
    pattern = Path(text)
    paths = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    if not paths:
        raise WrongUsage(f"--history {text}: no file has such a name", hint="check the pattern")
    return [path for path in paths if path.resolve() not in compared]
