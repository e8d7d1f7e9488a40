"""A metric that waits at gates, and the distribution with the plugins of the tests.

Worker processes load the metric and the source of `tests.support.gated_source` by entry point; the
test opens the gates. Every metric process imports this module, so it imports little.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mosaico.metrics.types import MetricProvider, MetricSpec
from mosaico.traces.types import Trace

FOLDER = "MOSAICO_TEST_GATES"
ENTRY_POINTS = """\
[mosaico.metrics]
gates = tests.support.gates:register_metrics
[mosaico.trace_sources]
gates = tests.support.gated_source:register_sources
"""


@dataclass(frozen=True, slots=True)
class Gate:
    """A place where a worker waits until the test opens it."""

    folder: Path
    name: str

    def is_reached(self) -> bool:
        return self._mark("reached").exists()

    def open(self) -> None:
        self._mark("open").touch()

    def pass_through(self) -> None:
        """Wait in the worker until the gate is open."""
        self._mark("reached").touch()
        while not self._mark("open").exists():
            time.sleep(0.01)

    def _mark(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}"


def install(folder: Path) -> None:
    """Create a distribution with the plugin entry points; `folder` must be on the import path."""
    metadata_folder = folder / "gates-1.0.dist-info"
    metadata_folder.mkdir(parents=True)
    (metadata_folder / "METADATA").write_text("Metadata-Version: 2.1\nName: gates\nVersion: 1.0\n")
    (metadata_folder / "entry_points.txt").write_text(ENTRY_POINTS)


class GateMetric:
    """1.0 for every trace; one with the tag `gate:NAME` waits at that gate."""

    spec = MetricSpec(key="GATE", description="Waits.", source="tests")

    def supports(self, _: Trace) -> bool:
        return True

    def compute(self, trace: Trace) -> float:
        for tag in trace.tags:
            kind, _, name = tag.partition(":")
            if kind == "gate":
                gate(name).pass_through()
        return 1.0


def register_metrics(register: Callable[[str, Callable[..., MetricProvider]], object]) -> None:
    register("GATE", GateMetric)


def gate(name: str) -> Gate:
    """The gate of this name in a worker process."""
    return Gate(Path(os.environ[FOLDER]), name)
