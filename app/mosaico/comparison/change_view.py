"""What changed between two runs, as the pages show it; pure."""

from collections.abc import Sequence
from typing import NamedTuple

from mosaico.comparison.attribute_text import (
    NOT_RECORDED,
    describe_difference,
    describe_nothing,
    describe_proof,
    name_authors,
    name_shared_items,
)
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.recorded_attributes import AttributeDifference, DifferenceKind, WhatChanged


class ChangeRow(NamedTuple):
    """A difference: its name and its values where it has them, otherwise its `text` alone. `share` is that of the
    fallen items that have it; None where nothing fell.
    """

    name: str | None
    before: str | None
    after: str | None
    text: str
    share: float | None
    fell: int
    others: int
    proof: str
    is_concentrated: bool


class WhatChangedView(NamedTuple):
    """The differences with the numbers of their items, and what is said beside them.

    `remarks` say what cannot be told apart, and `nothing` what it means that there is no difference.
    """

    rows: Sequence[ChangeRow]
    fell: int
    others: int
    metric: str | None
    baseline_run_id: str | None
    remarks: Sequence[str]
    nothing: str | None
    same: Sequence[str]
    varying: Sequence[str]
    left_out: int


def view_changes(changed: WhatChanged) -> WhatChangedView:
    """The differences as the pages show them."""
    is_unknown = bool(changed.differences) and not changed.has_attributes
    return WhatChangedView(
        rows=[_row(difference, changed) for difference in changed.differences],
        fell=changed.fell,
        others=changed.others,
        metric=changed.metric,
        baseline_run_id=changed.baseline_run_id,
        remarks=[*name_authors(changed), *name_shared_items(changed), *[NOT_RECORDED] * is_unknown],
        nothing=None if changed.differences else describe_nothing(changed),
        same=changed.same,
        varying=changed.varying,
        left_out=changed.left_out,
    )


def explain_missing_changes(run: BenchmarkRun) -> str:
    """Why nothing is known of what changed before a run, and what to do."""
    if run.completed_at is None:
        return "known when the run has ended"
    if run.verdict is None or run.verdict.baseline is None:
        return "there is no baseline to compare the traces with"
    return f"not recorded when this run ended; mosaico runs rescore {run.id} records it"


def _row(difference: AttributeDifference, changed: WhatChanged) -> ChangeRow:
    has_values = difference.kind in (DifferenceKind.VALUE, DifferenceKind.MEDIAN)
    median = " (median)" if difference.kind is DifferenceKind.MEDIAN else ""
    return ChangeRow(
        name=f"{difference.name}{median}" if has_values else None,
        before=(difference.before or "not recorded") if has_values else None,
        after=(difference.after or "not recorded") if has_values else None,
        text=describe_difference(difference),
        share=difference.share,
        fell=difference.fell,
        others=difference.others,
        proof=describe_proof(difference, changed),
        is_concentrated=difference.is_concentrated,
    )
