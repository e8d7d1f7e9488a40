"""What the traces of a run say of the agent, and what changed since the baseline: read from stored traces."""

from collections.abc import Callable

from sqlalchemy.orm import Session

from mosaico.comparison.attribute_differences import profile_of
from mosaico.comparison.attribute_text import MAX_LINES, describe_difference
from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.deciders import Deciders
from mosaico.comparison.fallen_items import FallenItems, find_fallen, find_fallen_by
from mosaico.comparison.pair_differences import compare_pair
from mosaico.core.db import Database
from mosaico.core.errors import AppError
from mosaico.items.attributes import ItemAttributes
from mosaico.items.matrix import ItemPairing, pair_items
from mosaico.items.queries import read_attributes, read_items
from mosaico.kpis.verdict_types import RunVerdict
from mosaico.run_store.recorded_attributes import DifferenceKind, RunRecord, WhatChanged


def record_run(
    comparison: RunComparison,
    deciders: Deciders,
    pairing: ItemPairing | None,
    attributes: ItemAttributes,
    read: Callable[[BaselineRun], ItemAttributes],
) -> RunRecord:
    """The record of a run with these attributes, with what changed since the newest run of its baseline, whose
    attributes are `read`; without a `pairing` no item is known to have fallen.
    """
    record = RunRecord(profile=profile_of(attributes))
    if comparison.baseline is None:
        return record
    baseline = comparison.baseline.runs[0]
    fallen = FallenItems()
    if pairing is not None:
        fallen = find_fallen_by(deciders, comparison.plan, comparison.kpis, pairing)
    changed = compare_pair(
        (read(baseline), attributes), (baseline, comparison.plan), fallen, pairing, comparison.ruler
    )
    return record.model_copy(update={"what_changed": changed})


def with_differences(verdict: RunVerdict, changed: WhatChanged | None) -> RunVerdict:
    """The verdict, whose differences begin with those of the traces; it has those of the plans."""
    if changed is None:
        return verdict
    of_traces = [
        describe_difference(difference)
        for difference in changed.differences
        if difference.kind is not DifferenceKind.PLAN
    ]
    return verdict.model_copy(
        update={"differences": (*of_traces[:MAX_LINES], *verdict.differences)}
    )


def compare_attributes(
    db: Database, baseline: BaselineRun, run: BaselineRun, column: str | None
) -> WhatChanged:
    """What changed between two stored runs, with the items that fell by a metric of both."""
    metric = next((metric for metric in run.plan.metrics if metric.column == column), None)
    is_common = metric is not None and column in baseline.plan.columns
    columns = [metric.column] if metric is not None and is_common else []
    with db.read() as session:
        pairing = pair_items(
            *(
                read_items(
                    session, {side.seq: side.plan.columns}, columns, is_sample=run.plan.is_sample
                )
                for side in (baseline, run)
            )
        )
    try:
        fallen = find_fallen(pairing, metric if columns else None)
    except AppError:  # the plugin of the metric is no longer installed
        fallen = FallenItems()
    attributes = _read(db, baseline), _read(db, run)
    return compare_pair(attributes, (baseline, run.plan), fallen, pairing)


def _read(db: Database, run: BaselineRun) -> ItemAttributes:
    with db.read() as session:
        return read_run_attributes(session, run)


def read_run_attributes(session: Session, run: BaselineRun) -> ItemAttributes:
    """The attributes of the items of a stored run."""
    return read_attributes(
        session, [run.seq], cluster_field=run.plan.cluster_field, is_sample=run.plan.is_sample
    )
