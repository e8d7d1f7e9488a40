"""The items of a run with their answers before and now: which fell, which are wrong, and what went wrong."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.comparison.answer_schemas import (
    AnswerCounts,
    AnswerFilter,
    CountedName,
    ShownAnswers,
)
from mosaico.comparison.comparison_rules import metric_rule, spec_of
from mosaico.comparison.deciding_metric import NOTHING_DECIDES, find_deciding_metric
from mosaico.core.errors import AppError, Conflict
from mosaico.items.flipped import is_flipped
from mosaico.items.queries import ALL_TAGS, OUTCOME_IN_RUN, REVISION
from mosaico.metrics.types import Direction
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.models import BenchmarkRun
from mosaico.statistics.verdict_rules import Scale

# All items are read for the order and the counts: those of more traces take longer than a request may.
MAX_TRACES: Final = 5_000
WRONG_ANSWER, EMPTY_ANSWER = "wrong answer", "empty answer"
_TRIALS: Final = text(
    f"""
    SELECT trace.item_id, run.seq = :now AS is_now, trace.trial, trace.position, trace.trace_id,
           {OUTCOME_IN_RUN} AS outcome, result.values[array_position(run.metric_keys, :metric)] AS value,
           trace.latency_ms, {REVISION} AS revision, coalesce(trace.output, '') = '' AS is_empty,
           jsonb_path_query_array(trace.tool_calls, '$[*].name') AS tools,
           jsonb_path_query_array(trace.tool_calls, '$[*] ? (@.ok == false).name') AS failed_tools,
           CAST(:tag AS text) IS NULL OR CAST(:tag AS text) = ANY({ALL_TAGS}) AS has_tag,
           CAST(:pattern AS text) IS NULL OR concat_ws(E'\\n', trace.item_id, trace.trace_id, trace.input,
               trace.expected_output, trace.output, trace.error) ILIKE :pattern AS has_text
    FROM benchmark_runs AS run
    JOIN collected_traces AS trace USING (collection_id)
    LEFT JOIN trace_results AS result ON result.run_seq = run.seq AND result.position = trace.position
    WHERE run.seq IN (:now, :before)
    ORDER BY trace.item_id COLLATE "C", trace.trial, trace.position
    """  # noqa: S608 - only constants
)


class TooManyAnswers(Conflict):
    """The run has too many traces to list its items by their answers; list them at
    GET /api/v1/benchmark-runs/{runId}/results?state=wrong.
    """


class AnswerTrial(NamedTuple):
    """A trial of an item in one of the two runs, without its texts."""

    item_id: str
    is_now: bool
    trial: int
    position: int
    trace_id: str
    outcome: str
    value: float | None
    latency_ms: float | None
    revision: str
    is_empty: bool
    tools: list[str] | None
    failed_tools: list[str] | None
    has_tag: bool
    has_text: bool


class OrderedMetric(NamedTuple):
    """The metric by which items fall and rise."""

    column: str
    less_is_better: bool
    scale: Scale


# Without slots: what is computed of its trials is asked for several times.
@dataclass(frozen=True, kw_only=True)
class ItemAnswers:
    """An item of the run now, and its trials before; those of another task are not compared."""

    item_id: str
    before: Sequence[AnswerTrial]
    now: Sequence[AnswerTrial]
    metric: OrderedMetric | None
    decider: DecidingMetric | None

    @cached_property
    def mean_before(self) -> float | None:
        return mean_of(self.before)

    @cached_property
    def mean_now(self) -> float | None:
        return mean_of(self.now)

    @cached_property
    def is_same_task(self) -> bool:
        return len({trial.revision for trial in (*self.before, *self.now)}) == 1

    @cached_property
    def change(self) -> float | None:
        """The change of the mean over the trials; None where a side has none."""
        before, now = self.mean_before, self.mean_now
        if before is None or now is None or not self.is_same_task:
            return None
        return now - before if math.isfinite(now - before) else None

    @cached_property
    def harm(self) -> float:
        """The change to the worse; 0 where it is not known."""
        if self.change is None or self.metric is None:
            return 0.0
        return self.change if self.metric.less_is_better else -self.change

    @cached_property
    def is_flipped(self) -> bool:
        before, now = self.mean_before, self.mean_now
        if self.metric is None or self.change is None or before is None or now is None:
            return False
        return is_flipped(before, now, self.metric.scale)

    @cached_property
    def is_wrong(self) -> bool:
        return self.is_right(self.now) is False

    def is_right(self, trials: Sequence[AnswerTrial]) -> bool | None:
        """Return whether the answers of a run are right: by the mean of their values; None where nothing says so."""
        if self.decider is None:
            return None
        return self.decider.is_right(mean_of(trials))

    def worst(self, trials: Sequence[AnswerTrial]) -> AnswerTrial:
        """The first trial with the worst value; one without a value is not the agent's, and last."""
        sign = -1 if self.metric is not None and self.metric.less_is_better else 1
        return min(
            trials, key=lambda trial: math.inf if trial.value is None else sign * trial.value
        )

    @cached_property
    def failures(self) -> list[str]:
        """What went wrong now: outcomes, failed tools, and for a wrong answer whether it has a text."""
        names = [trial.outcome.replace("_", " ") for trial in self.now if trial.outcome != "scored"]
        names += [f"tool {tool} failed" for trial in self.now for tool in trial.failed_tools or ()]
        if self.is_wrong:
            scored = [trial for trial in self.now if trial.outcome == "scored"]
            names += [EMPTY_ANSWER if trial.is_empty else WRONG_ANSWER for trial in scored]
        return list(dict.fromkeys(names))

    @cached_property
    def tools(self) -> list[str]:
        """The tools that the agent called now."""
        return list(dict.fromkeys(tool for trial in self.now for tool in trial.tools or ()))

    def is_shown(self, show: ShownAnswers) -> bool:
        match show:
            case "fell":
                return self.is_flipped and self.harm > 0
            case "rose":
                return self.is_flipped and self.harm < 0
            case "wrong":
                return self.is_wrong
        return True

    @cached_property
    def passes(self) -> bool:
        """Return whether the item has the tag and the text of the filter with which it was read."""
        trials = (*self.before, *self.now)
        return any(trial.has_tag for trial in self.now) and any(trial.has_text for trial in trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswers:
    """All items of a run, and those that a filter selects, the worst first (for `rose` the greatest rise)."""

    run: BenchmarkRun
    baseline: BenchmarkRun | None
    metric: OrderedMetric | None
    decider: DecidingMetric | None
    items: Sequence[ItemAnswers] = ()
    selected: Sequence[ItemAnswers] = ()
    counts: AnswerCounts
    failures: Sequence[CountedName] = ()
    tools: Sequence[CountedName] = ()

    @property
    def rule(self) -> str:
        return self.decider.describe() if self.decider else NOTHING_DECIDES

    def narrowed(self, answer_filter: AnswerFilter) -> "RunAnswers":
        """The answers with the items that a filter of the same tag and text selects."""
        passing = [item for item in self.items if item.passes and item.is_shown(answer_filter.show)]
        return replace(
            self,
            selected=_select(passing, answer_filter),
            failures=_count(item.failures for item in passing),
            tools=_count(item.tools for item in passing),
        )


def load_answers(
    session: Session,
    run: BenchmarkRun,
    baseline: BenchmarkRun | None,
    answer_filter: AnswerFilter,
) -> RunAnswers:
    """The items of a run beside those of its baseline. Raises: `TooManyAnswers`."""
    sizes = [side.traces_collected for side in (run, baseline) if side]
    if max(sizes) > MAX_TRACES:
        raise TooManyAnswers(
            f"the run or its baseline has {max(sizes):,} traces, and items are listed by their answers up to"
            f" {MAX_TRACES:,}; GET /api/v1/benchmark-runs/{run.id}/results?state=wrong lists its wrong answers"
        )
    decider = find_deciding_metric(session, run)
    metric = find_ordered_metric(run, decider)
    items = _read_items(session, run, baseline, metric, decider, answer_filter)
    answers = RunAnswers(
        run=run,
        baseline=baseline,
        metric=metric,
        decider=decider,
        items=items,
        counts=AnswerCounts(
            all=len(items),
            fell=sum(item.is_shown("fell") for item in items),
            wrong=sum(item.is_wrong for item in items) if decider else None,
            rose=sum(item.is_shown("rose") for item in items),
        ),
    )
    return answers.narrowed(answer_filter)


def find_baseline_run(session: Session, run: BenchmarkRun) -> BenchmarkRun | None:
    """The run that a run was compared with, the first of several, if it still has its traces."""
    run_ids = run.verdict.baseline.run_ids if run.verdict and run.verdict.baseline else ()
    baseline = session.get(BenchmarkRun, run_ids[0]) if run_ids else None
    return None if baseline is None or baseline.purged_at else baseline


def mean_of(trials: Sequence[AnswerTrial]) -> float | None:
    """The mean of the values of trials; None without any, or beyond the range of a float."""
    values = [trial.value for trial in trials if trial.value is not None]
    # Divided first: the sum of numbers near the largest float is not one.
    mean = math.fsum(value / len(values) for value in values) if values else math.nan
    return mean if math.isfinite(mean) else None


def find_ordered_metric(run: BenchmarkRun, decider: DecidingMetric | None) -> OrderedMetric | None:
    """The deciding metric, otherwise the first one with a better direction; None without one."""
    for metric in run.plan.metrics if run.plan else ():
        if decider and metric.column != decider.column:
            continue
        try:
            spec = spec_of(metric)
        except AppError:
            # Its plugin is gone.
            continue
        if spec.direction is not Direction.NEITHER and metric.column in (run.metric_keys or ()):
            less_is_better = spec.direction is Direction.LOWER_IS_BETTER
            return OrderedMetric(metric.column, less_is_better, metric_rule(spec).scale)
    return None


def _read_items(
    session: Session,
    run: BenchmarkRun,
    baseline: BenchmarkRun | None,
    metric: OrderedMetric | None,
    decider: DecidingMetric | None,
    answer_filter: AnswerFilter,
) -> list[ItemAnswers]:
    parameters: Mapping[str, Any] = {
        "now": run.seq,
        "before": baseline.seq if baseline else None,
        "metric": metric.column if metric else None,
        "tag": answer_filter.tag or None,
        "pattern": _pattern(answer_filter.text),
    }
    trials = [AnswerTrial(*row) for row in session.execute(_TRIALS, parameters)]
    items = []
    for item_id, group in groupby(trials, attrgetter("item_id")):
        sides: dict[bool, list[AnswerTrial]] = {True: [], False: []}
        for trial in group:
            sides[trial.is_now].append(trial)
        if sides[True]:
            items.append(
                ItemAnswers(
                    item_id=item_id,
                    before=sides[False],
                    now=sides[True],
                    metric=metric,
                    decider=decider,
                )
            )
    return items


def _pattern(searched_text: str | None) -> str | None:
    """A pattern of ILIKE for a part of a text; None without one."""
    part = (searched_text or "").strip()
    for character in ("\\", "%", "_"):
        part = part.replace(character, f"\\{character}")
    return f"%{part}%" if part else None


def _select(items: Iterable[ItemAnswers], answer_filter: AnswerFilter) -> list[ItemAnswers]:
    """The items of a failure and a tool: the worst fall first, then the wrong ones."""
    sign = 1 if answer_filter.show == "rose" else -1
    selected = [
        item
        for item in items
        if (not answer_filter.failure or answer_filter.failure in item.failures)
        and (not answer_filter.tool or answer_filter.tool in item.tools)
    ]
    return sorted(selected, key=lambda item: (sign * item.harm, not item.is_wrong, item.item_id))


def _count(names_by_item: Iterable[Sequence[str]]) -> list[CountedName]:
    """The names with their numbers of items, the most frequent first."""
    counts = Counter(name for names in names_by_item for name in names)
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [CountedName(name=name, items=count) for name, count in ordered]
