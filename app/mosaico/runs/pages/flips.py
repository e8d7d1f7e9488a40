"""The flipped items of a run, and rows of items of two runs: their trials as marks, and what failed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.comparison.compared_items import describe_items
from mosaico.comparison.comparison_rules import metric_rule
from mosaico.comparison.schemas import ComparedItemView
from mosaico.core.text import format_decimal, format_number
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import build_url
from mosaico.items.flipped import find_flips, item_means
from mosaico.items.matrix import pair_items
from mosaico.items.queries import read_items
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import Direction
from mosaico.run_store.models import BenchmarkRun

MAX_FLIPS = 8
# Reading the items of larger runs takes longer than a page may; the comparison shows theirs.
MAX_FLIP_TRACES = 5_000


def load_flips(
    session: Session, run: BenchmarkRun, baseline_ids: Sequence[str]
) -> dict[str, Any] | None:
    """The items that flipped by the first metric; None where they are not known or too many."""
    if not baseline_ids or run.purged_at or not run.metric_keys:
        return None
    baseline = session.scalars(
        select(BenchmarkRun).where(BenchmarkRun.id == baseline_ids[0])
    ).one_or_none()
    size = max(run.traces_total or 0, baseline.traces_total or 0 if baseline else 0)
    metric = run.metric_keys[0]
    if (
        baseline is None
        or baseline.purged_at
        or size > MAX_FLIP_TRACES
        or metric not in (baseline.metric_keys or [])
    ):
        return None
    plan = run.begun_plan
    planned = next(planned for planned in plan.metrics if planned.column == metric)
    spec = provider_for(planned.ref).spec
    pairing = pair_items(
        *(
            read_items(session, {compared.seq: compared.metric_keys or []}, [metric])
            for compared in (baseline, run)
        )
    )
    if not pairing.is_paired:
        return None
    less_is_better = spec.direction is Direction.LOWER_IS_BETTER
    flips = find_flips(
        item_means(pairing.baseline, metric),
        item_means(pairing.candidate, metric),
        metric_rule(spec).scale,
        less_is_better=less_is_better,
    )
    if not flips:
        return None
    listed_flips = flips[:MAX_FLIPS]
    cases = describe_items(
        session, (baseline, run), metric, [flip.item_id for flip in listed_flips]
    )
    fell = sum(flip.harm > 0 for flip in flips)
    fallen = [cases[flip.item_id] for flip in listed_flips if flip.harm > 0]
    return {
        "metric": metric,
        "fell": fell,
        "rose": len(flips) - fell,
        "more": len(flips) > MAX_FLIPS,
        "shared": find_shared_error([case.errors for case in fallen]),
        "rows": [
            case_row(cases[flip.item_id], (baseline.id, run.id), has_marks=not less_is_better)
            for flip in listed_flips
        ],
    }


class SharedError(NamedTuple):
    """What failed in `item_count` of `of` items."""

    error: str
    item_count: int
    of: int


def find_shared_error(errors_by_item: Sequence[Sequence[str]]) -> SharedError | None:
    """What failed in most items, and in at least half of them and two; None without such an error."""
    counts = Counter(error for errors in errors_by_item for error in set(errors))
    if not counts:
        return None
    error, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
    of = len(errors_by_item)
    return SharedError(error, count, of) if count > 1 and 2 * count >= of else None


class TrialText(NamedTuple):
    """The trials of an item as marks, and as words for a reader without a screen; `marks` may be empty."""

    marks: str
    words: str


def case_row(
    case: ComparedItemView, run_ids: tuple[str, str], *, has_marks: bool
) -> dict[str, Any]:
    """An item of both runs; `has_marks` of a metric of which 1 is a pass."""
    harm = None if case.change is None else case.change * (-1 if has_marks else 1)
    return {
        "item": case,
        "before": _trials(case.baseline_trials, case.baseline, has_marks=has_marks),
        "now": _trials(case.candidate_trials, case.candidate, has_marks=has_marks),
        "change": None if case.change is None else format_decimal(case.change, "+.4g"),
        "verdict": None if not harm else "REGRESSED" if harm > 0 else "IMPROVED",
        "others": [
            (other.metric, format_decimal(other.change, "+.4g"))
            for other in case.metrics
            if other.metric != case.metric and other.change
        ],
        "url": build_url(path_of("runs", run_ids[1], "items"), item=case.item_id, base=run_ids[0]),
    }


def _trials(values: Sequence[float | None], mean: float | None, *, has_marks: bool) -> TrialText:
    """The trials as marks and as words, or their mean alone."""
    if has_marks and values and all(value in (0.0, 1.0) for value in values):
        passed = sum(value == 1.0 for value in values)
        marks = "".join("✓" if value else "✗" for value in values)
        return TrialText(marks, f"{passed} of {len(values)} pass")
    return TrialText("", "" if mean is None else format_number(mean))
