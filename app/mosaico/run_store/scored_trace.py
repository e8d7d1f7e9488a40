"""The values of a trace, as a run aggregates them."""

from collections.abc import Sequence
from typing import NamedTuple

from mosaico.metrics.types import MetricNote


class ScoredTrace(NamedTuple):
    """The values of one trace, and what aggregation needs to know of it.

    `is_lost`: it was not measured, by no fault of the agent. `item_id` may be None without `with_items`.
    """

    values: Sequence[float | None]
    notes: dict[str, MetricNote] | None
    is_lost: bool
    item_id: str | None
