"""The answer of a comparison of files in a few lines of text: what was read, what decides, and the interval; pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mosaico.comparison.change_text import format_amount
from mosaico.comparison.deciders import REASONS, DecidedBy, describe_direction
from mosaico.comparison.schemas import Comparison
from mosaico.core.parameter_names import parameter_name
from mosaico.core.text import shorten
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.metric_gaps import is_judgement
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import MetricRef
from mosaico.statistics.verdict_rules import Side, Verdict

INTERVAL_CHARS: Final = 41
_TEXT_FIELDS: Final = ("output", "expected", "input")
_MAX_SCORES: Final = 6


def describe_reading(
    comparison: Comparison, refs: Iterable[MetricRef], columns: Mapping[str, str]
) -> str:
    """One line: how many items are paired and by what, the columns of the texts, the scores with their directions,
    and what decides.
    """
    parts = [_describe_items(comparison, columns)]
    parts.append(", ".join(columns[name] for name in _TEXT_FIELDS if columns.get(name)))
    scores = list(_describe_scores(comparison, refs))
    more = f", and {len(scores) - _MAX_SCORES} more" if len(scores) > _MAX_SCORES else ""
    parts.append(f"scores: {', '.join(scores[:_MAX_SCORES])}{more}" if scores else "")
    parts.append(f"decides: {describe_deciders(comparison)}")
    return " · ".join(filter(None, parts))


def describe_spared(names: Sequence[str]) -> str:
    """The metrics that were not computed, and how to get them; empty for none."""
    listed = ", ".join(names)
    return (
        f"not computed, because they do not decide: {listed} ({parameter_name('--all')} computes them)"
        if names
        else ""
    )


def describe_deciders(comparison: Comparison) -> str:
    """What decides, with the reason: "faithfulness, correctness (the source scored its answers)"."""
    names = ", ".join(map(display_name, comparison.judged)) or "nothing"
    if comparison.decided_by is DecidedBy.NAMED:
        return names
    guards = (row.verdict.verdict for row in comparison.metrics if row.metric == comparison.guard)
    failed = f"; {comparison.guard}: more answers failed" if Verdict.REGRESSED in guards else ""
    return f"{names} ({REASONS[comparison.decided_by]}){failed}"


def display_name(column: str) -> str:
    """The name of a metric; of a score without its frame: `tone` of `SCORE["tone"]`."""
    prefix, suffix = "SCORE[", "]"
    if not (column.startswith(prefix) and column.endswith(suffix)):
        return column
    return str(json.loads(column.removeprefix(prefix).removesuffix(suffix)))


def draw_interval(verdict: ValueVerdict) -> str:
    """The interval of a change beside no change (`0`) and the limit (`!`): "-0.45 [---o---]   !0"; empty without one."""
    low, high, effect = verdict.low_adjusted, verdict.high_adjusted, verdict.effect
    if low is None or high is None or effect is None:
        return ""
    # Without a better direction there is no limit on one side.
    size = 0.0 if verdict.side is Side.BOTH else verdict.min_effect or 0.0
    limit = size if verdict.side is Side.HIGH else -size
    # 0.0 first: of equal values `min` returns the first, and a limit of -0.0 would be shown with its sign.
    lowest, highest = min(0.0, low, limit), max(0.0, high, limit)
    if lowest == highest:
        return ""

    def position(value: float) -> int:
        return round((value - lowest) / (highest - lowest) * (INTERVAL_CHARS - 1))

    cells = [" "] * INTERVAL_CHARS
    for index in range(position(low), position(high) + 1):
        cells[index] = "-"
    marks = ((limit, "!"), (0.0, "0"), (low, "["), (high, "]"), (effect, "o"))
    for value, mark in marks[verdict.side is Side.BOTH :]:
        cells[position(value)] = mark
    ends = (format_amount(value, verdict.scale, has_sign=True) for value in (lowest, highest))
    legend = "0 no change" if verdict.side is Side.BOTH else "0 no change, ! limit"
    return f"{next(ends)} {''.join(cells)} {next(ends)} ({legend})"


def short_text(text: str | None, chars: int = 60) -> str:
    """A text in one short line."""
    return shorten(" ".join((text or "").split()), chars)


def _describe_items(comparison: Comparison, columns: Mapping[str, str]) -> str:
    items = comparison.verdict.items
    if items is None:
        return ""
    if not items.compared:
        return "items not paired"
    key = columns.get("item") or columns.get("input")
    return f"items {items.compared} paired{f' by {key}' if key else ''}"


def _describe_scores(comparison: Comparison, refs: Iterable[MetricRef]) -> Iterator[str]:
    compared = {row.metric for row in comparison.metrics}
    for ref in refs:
        spec = provider_for(ref).spec
        if spec.key in compared and is_judgement(spec.key):
            yield f"{display_name(spec.key)} ({describe_direction(ref, spec)})"
