"""Where a run is written that was told no place: a name that no other run has."""

from collections.abc import Iterator
from datetime import datetime
from itertools import count
from os.path import lexists
from pathlib import Path
from typing import Final

from app.core.console.output_files import require_folder
from app.harness.mcp.recordings import journal_of

FOLDER: Final = Path("tmp")


def claim(now: datetime, folder: Path = FOLDER) -> Path:
    """`tmp/result-20261122-0930.yaml`, numbered when there is such a file, or a run that makes it.

    The name is this run's own from now on, and so is that of its CSV: the empty journal, and the
    empty CSV that is made with it, keep others from them. Raises: UnwritableOutput.
    """
    require_folder(folder)
    for path in _names(now, folder):
        if lexists(path) or lexists(path.with_suffix(".csv")):
            continue
        try:
            journal_of(path).touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError("numbers do not end")


def _names(now: datetime, folder: Path) -> Iterator[Path]:
    stem = f"result-{now.strftime('%Y%m%d-%H%M')}"
    yield folder / f"{stem}.yaml"
    for number in count(2):
        yield folder / f"{stem}-{number}.yaml"
