"""The sample plugin distribution, installed with pip and visible to one test only."""

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.registry import LoadedPlugin, Registry
from mosaico.formula import python_api
from mosaico.metrics.registry import METRICS
from mosaico.overview.providers import REGISTRIES
from tests.support.waiting import LIVENESS_S

SOURCES = Path(__file__).parent / "sample_plugin"
PACKAGE = "mosaico_sample"


def install_sample(folder: Path) -> Path:
    """Build and install the sample distribution; returns what to put on the search path."""
    copy, target = folder / "sources", folder / "installed"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install",
            # No network: hatchling, which builds it, and the dependencies are installed here.
            "--no-index", "--no-deps", "--no-build-isolation", "--target", target, copy,
        ],
        check=True, capture_output=True, timeout=LIVENESS_S,
    )  # fmt: skip
    return target


def isolate_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test register things that are gone afterwards."""
    for registry in REGISTRIES:
        _isolate(registry, monkeypatch)
    parser = python_api._default_parser
    monkeypatch.setattr(parser, "_keys", parser.known_metric_keys())


def load_sample(monkeypatch: pytest.MonkeyPatch, installed: Path) -> list[LoadedPlugin]:
    """Load the sample distribution into this process; returns what failed."""
    isolate_registries(monkeypatch)
    monkeypatch.syspath_prepend(str(installed))
    # Not the plugins that this process found before.
    monkeypatch.setattr(
        "mosaico.core.registry.installed_entry_points", lambda group: entry_points(group=group)
    )
    failures: list[LoadedPlugin] = []
    for registry in REGISTRIES:
        registry.load_entry_points(failures.append)
    python_api.register_metric_keys({*METRICS.names(), *METRICS.aliases} - {"SCORE"})
    return failures


def _isolate(registry: Registry[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # Copies: what the test registers goes into them, and the originals come back after the test.
    for name in ("_items", "_aliases", "_loaded"):
        monkeypatch.setattr(registry, name, getattr(registry, name).copy())
