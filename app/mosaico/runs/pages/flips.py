"""Rows of items of two runs: their trials as marks, and what failed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from mosaico.comparison.schemas import ComparedItemView
from mosaico.core.text import format_decimal, format_number
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import build_url


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
        "before": trial_text(case.baseline_trials, case.baseline, has_marks=has_marks),
        "now": trial_text(case.candidate_trials, case.candidate, has_marks=has_marks),
        "change": None if case.change is None else format_decimal(case.change, "+.4g"),
        "verdict": None if not harm else "REGRESSED" if harm > 0 else "IMPROVED",
        "others": [
            (other.metric, format_decimal(other.change, "+.4g"))
            for other in case.metrics
            if other.metric != case.metric and other.change
        ],
        "url": build_url(path_of("runs", run_ids[1], "items"), item=case.item_id, base=run_ids[0]),
    }


def trial_text(values: Sequence[float | None], mean: float | None, *, has_marks: bool) -> TrialText:
    """The trials as marks and as words, or their mean alone."""
    if has_marks and values and all(value in (0.0, 1.0) for value in values):
        passed = sum(value == 1.0 for value in values)
        marks = "".join("✓" if value else "✗" for value in values)
        return TrialText(marks, f"{passed} of {len(values)} pass")
    return TrialText("", "" if mean is None else format_number(mean))
