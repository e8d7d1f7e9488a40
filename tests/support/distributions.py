"""The wheel and the source archive of this project, built as `make release` builds them."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import ROOT
from tests.support.waiting import LIVENESS_S


class Distributions(NamedTuple):
    wheel: Path
    sources: Path


def build_distributions(folder: Path) -> Distributions:
    """Build both into a folder, without network: hatchling is installed here."""
    _build(folder)
    [wheel], [sources] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distributions(wheel, sources)


def build_wheel(folder: Path) -> Path:
    """Build the wheel alone, which takes a third of the time."""
    _build(folder, "--target", "wheel")
    [wheel] = folder.glob("*.whl")
    return wheel


def _build(folder: Path, *options: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", folder, *options],
        cwd=ROOT, check=True, capture_output=True, timeout=LIVENESS_S,
    )  # fmt: skip
