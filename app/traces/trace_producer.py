"""Traces that are made on the spot: what a harness is given, and what it gives."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.core.errors import NotFound
from app.core.resources import Resources
from app.harness.budget import Budget, UsedBudget
from app.harness.folder import read_below
from app.traces.registry import CollectionFailed
from app.traces.types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedTrace:
    """An attempt: its place in the plan, its trace, and whether it need not be made again."""

    place: int
    trace: Trace
    settled: bool


class TraceProducer(Protocol):
    """Attempts at tasks, of which some may be made already.

    `digest` names what they are: another one when something was edited meanwhile.
    """

    @property
    def total(self) -> int: ...

    @property
    def digest(self) -> str: ...

    def budget(self, spent: UsedBudget) -> Budget:
        """What the whole run may use, of which so much is used already."""
        ...

    def make(self, places: Collection[int], budget: Budget) -> Iterator[Sequence[ProducedTrace]]:
        """Make the attempts of these places; an empty page is a sign of life.

        Raises: `CollectionFailed` when no model answers.
        """
        ...


def read_file(resources: Resources, name: str) -> bytes:
    """A file of the operator's folder. Raises: `CollectionFailed`."""
    folder = resources.options.get("harness_dir")
    if not folder:
        raise CollectionFailed(
            "no folder of datasets is configured; have the operator set MOSAICO_HARNESS_DIR for"
            " the workers",
            code="HARNESS_NOT_CONFIGURED",
        )
    try:
        return read_below(Path(folder), name)
    except NotFound as error:
        raise CollectionFailed(error.detail, code="DATASET_NOT_FOUND") from None
