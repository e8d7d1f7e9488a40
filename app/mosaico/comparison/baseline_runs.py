"""The runs that another run is compared with; no database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mosaico.kpis.verdict_types import BaselineSelection
from mosaico.run_store.plan import RunPlan


class BaselineRun(NamedTuple):
    """A run of a baseline."""

    seq: int
    id: str
    plan: RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The runs that another run is compared with, newest first, at least one.

    `mode` is the reason for their selection.
    """

    mode: BaselineSelection
    runs: Sequence[BaselineRun]
