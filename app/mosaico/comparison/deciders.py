"""What decides the verdict of two runs: one choice for files and for stored runs; pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from mosaico.core.errors import Invalid
from mosaico.metrics.registry import provider_for, ref_of_column
from mosaico.metrics.score_directions import ScoreDirection, direction_of_score
from mosaico.metrics.types import ERROR_RATE, WORK_UNITS, Direction, MetricRef, MetricSpec
from mosaico.statistics.verdict_rules import About

# Metrics of an answer beside an expected one; the order decides between equally covered metrics.
_LABEL_METRICS: Final = ("ACCURACY", "EXACT_MATCH", "CONTAINS", "F1_SCORE", "PRECISION", "RECALL")
_TEXT_METRICS: Final = (
    "ROUGE", "CHRF", "ROUGE_1", "ROUGE_2", "BLEU", "EDIT_SIMILARITY", "SEMANTIC_SIMILARITY",
)  # fmt: skip
# What the source, or a judge, says of an answer.
SOURCE_METRICS: Final = ("TASK_PASSED", "TASK_SCORE", "LLM_JUDGE")
# They say whether there is an answer, and how it was made, and nothing of its quality.
GUARDS: Final = ("STATUS", ERROR_RATE)
_MEANINGS: Final = dict(
    zip(GUARDS, ("answers that did not fail", "answers that failed"), strict=True)
)
_NO_QUALITY: Final = frozenset(
    {*GUARDS, "ERROR_COUNT", "JSON_VALID", "TOOL_CALL_SUCCESS_RATE", "NATURAL_STOP"}
)
_NO_QUALITY_UNITS: Final = WORK_UNITS | {"errors"}
# Below this mean over both runs equality says nothing: the answers are longer than the labels.
_LEAST_EQUAL: Final = 0.1
_SHORT_SHARE: Final = 0.9
_DISTINCT_SHARE: Final = 0.5
# A metric that has values of fewer items than another one, by more than this share, does not decide in its place.
_MOST_ITEMS: Final = 0.9


class DecidedBy(StrEnum):
    """Why these KPIs and metrics decide.

    NAMED: the user named them. KPIS: the KPIs of the gate, otherwise all KPIs. SOURCE: pass or fail and the scores of
    the source. LABELS, TEXTS: the metric that fits the expected answers. OTHER: a metric of a plugin. UNDIRECTED: scores
    of which nobody said which way is better. NOTHING: nothing measures quality.
    """

    NAMED = "NAMED"
    KPIS = "KPIS"
    SOURCE = "SOURCE"
    LABELS = "LABELS"
    TEXTS = "TEXTS"
    OTHER = "OTHER"
    UNDIRECTED = "UNDIRECTED"
    NOTHING = "NOTHING"


REASONS: Final = {
    DecidedBy.NAMED: "you named it",
    DecidedBy.KPIS: "the KPIs of the gate",
    DecidedBy.SOURCE: "the source scored its answers",
    DecidedBy.LABELS: "the expected answers are labels",
    DecidedBy.TEXTS: "the expected answers are texts",
    DecidedBy.OTHER: "nothing else measures quality",
    DecidedBy.UNDIRECTED: "nothing with a known better direction measures quality",
    DecidedBy.NOTHING: "nothing measures quality",
}


class Deciders(NamedTuple):
    """The KPIs and metrics that are judged together and decide.

    `guard` is the metric of failed answers, a check of its own: it counts only if it regressed. It is judged together with
    metrics that were chosen for the user, and alone beside what the user named.
    """

    names: tuple[str, ...]
    by: DecidedBy
    guard: str | None = None

    @property
    def judged(self) -> tuple[str, ...]:
        """The names of all that are judged together."""
        is_named = self.by in (DecidedBy.NAMED, DecidedBy.KPIS)
        return self.names if self.guard is None or is_named else (*self.names, self.guard)

    @property
    def checked(self) -> tuple[str, ...]:
        """The names of all whose regression counts."""
        has_guard = self.guard is not None and self.guard not in self.names
        return (*self.names, self.guard) if self.guard and has_guard else self.names


NO_DECIDERS: Final = Deciders((), DecidedBy.NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonMetric:
    """A metric with values in both runs, over `items`; `mean` is that of both runs."""

    ref: MetricRef
    spec: MetricSpec
    items: int
    mean: float

    @property
    def family(self) -> str:
        """The name of the metric without the name of a score and without a filter."""
        return self.spec.key.partition("[")[0].partition("{")[0]

    @property
    def is_directed(self) -> bool:
        return self.spec.direction is not Direction.NEITHER

    def reads_most(self, answers: "ExpectedAnswers") -> bool:
        """Return whether the metric has values of most items of both runs, or reads expected answers of any kind."""
        is_any = self.spec.readable is None
        return is_any or 2 * self.items > (answers.items - answers.absent) / 2

    @property
    def is_quality(self) -> bool:
        """Return whether the metric may stand for quality."""
        if self.family == "SCORE":
            return _direction_of(self.ref).is_quality
        return self.family not in _NO_QUALITY and self.spec.unit not in _NO_QUALITY_UNITS

    @property
    def is_of_source(self) -> bool:
        """Return whether the metric is what the source says of its answers, with a known better direction."""
        is_source = self.family in (*SOURCE_METRICS, "SCORE")
        return is_source and self.is_quality and self.is_directed


class ExpectedAnswers(NamedTuple):
    """The expected answers of the items of both runs: how many are as short as a label, how many differ, and how many
    items have none.
    """

    items: int = 0
    short: int = 0
    distinct: int = 0
    absent: int = 0

    @property
    def are_short(self) -> bool:
        return self.items > 0 and self.short >= _SHORT_SHARE * self.items

    @property
    def are_labels(self) -> bool:
        """Return whether the answers are short, and few of them differ."""
        return self.are_short and self.distinct <= max(2, _DISTINCT_SHARE * self.items)


def select_deciders(
    metrics: Sequence[CommonMetric],
    answers: ExpectedAnswers,
    *,
    named: Sequence[str] = (),
    kpis: Sequence[str] = (),
) -> Deciders:
    """What decides: the first of what the user named, KPIs, what the source says of its answers, and the metric that
    fits the expected answers.

    The choice does not depend on which of the runs is the baseline: a choice by the better value of one run would find
    regressions in unchanged runs, because the best of several values is more often high by chance.
    """
    guard = _first_of(GUARDS, metrics)
    if named:
        return Deciders(tuple(named), DecidedBy.NAMED, None if guard in named else guard)
    if kpis:
        return Deciders(tuple(kpis), DecidedBy.KPIS, guard)
    names, by = _by_quality(metrics, answers)
    return Deciders(names, by, guard)


def _by_quality(
    metrics: Sequence[CommonMetric], answers: ExpectedAnswers
) -> tuple[tuple[str, ...], DecidedBy]:
    """The metrics that stand for quality, by column."""
    quality = [metric for metric in metrics if metric.is_quality and metric.reads_most(answers)]
    directed = [metric for metric in quality if metric.is_directed]
    if source := [metric for metric in directed if metric.is_of_source]:
        return _in_order(source), DecidedBy.SOURCE
    if answer_metric := _answer_metric(directed, answers):
        return answer_metric
    answer_families = (*_LABEL_METRICS, *_TEXT_METRICS)
    if of_plugins := [metric for metric in directed if metric.family not in answer_families]:
        return _in_order(of_plugins), DecidedBy.OTHER
    # None of them has a known better direction.
    return _in_order(quality), DecidedBy.UNDIRECTED if quality else DecidedBy.NOTHING


class MetricChoice(NamedTuple):
    """The metrics to measure of two files, and `spare` ones: they compare answers with expected ones, and are measured
    only if one of them may decide.
    """

    measured: list[MetricRef]
    spare: list[MetricRef]


def choose_metrics(refs: Sequence[MetricRef], answers: ExpectedAnswers) -> MetricChoice:
    """The metrics that do not compare answers with expected ones, and of the others those that probably decide, by the
    expected `answers` of a sample. Beside what the source says they are a second opinion.
    """
    later = {*_LABEL_METRICS, *_TEXT_METRICS}.difference(_likely_families(answers))
    spare = [ref for ref in refs if _unmeasured(ref).family in later]
    return MetricChoice([ref for ref in refs if ref not in spare], spare)


def judges_both(refs: Iterable[MetricRef], scores: Sequence[Collection[str]]) -> list[MetricRef]:
    """The metrics of what the source says, if it judges both of two files, of which the names of the scores are known: then
    no other metric decides. Otherwise none.
    """
    source = [ref for ref in refs if _unmeasured(ref).is_of_source and ref.key != "LLM_JUDGE"]
    is_judged = all(any(_score_name(ref) in names for ref in source) for names in scores)
    return source if is_judged else []


def _likely_families(answers: ExpectedAnswers) -> tuple[str, ...]:
    """The metrics that are the first to decide about such answers."""
    if answers.items == 0:
        return ()
    text_metric = _TEXT_METRICS[:1]
    if not answers.are_short:
        return text_metric
    return _LABEL_METRICS if answers.are_labels else (*_LABEL_METRICS, *text_metric)


def are_settled(
    metrics: Sequence[CommonMetric], answers: ExpectedAnswers, spare: Iterable[MetricRef]
) -> bool:
    """Return whether the same metrics decide whatever the values of the `spare` ones are."""
    # None has values of more items, or better ones.
    items = (answers.items - answers.absent) // 2
    best = [replace(_unmeasured(ref), items=items, mean=1.0) for ref in spare] if items else []
    return select_deciders(metrics, answers) == select_deciders([*metrics, *best], answers)


def _unmeasured(ref: MetricRef) -> CommonMetric:
    return CommonMetric(ref=ref, spec=provider_for(ref).spec, items=0, mean=0.0)


def _score_name(ref: MetricRef) -> str:
    """The name under which a trace has the score of a metric: `TASK_PASSED` is one of its own."""
    return str(dict(ref.options).get("name", ref.key))


def measures_quality(column: str) -> bool:
    """Return whether a metric, by its column, may stand for quality. The registry of metrics must be loaded."""
    return is_of_quality(ref_of_column(column))


def is_of_quality(ref: MetricRef) -> bool:
    """Return whether a metric may stand for quality."""
    return _unmeasured(ref).is_quality


def is_guard(ref: MetricRef) -> bool:
    """Return whether a metric is that of failed answers."""
    return _unmeasured(ref).family in GUARDS


def describe_direction(ref: MetricRef, spec: MetricSpec) -> str:
    """The direction of a metric, of a score with its origin: "higher is better by its name"."""
    if spec.key.startswith("SCORE["):
        return _direction_of(ref).phrase
    return {
        Direction.HIGHER_IS_BETTER: "higher is better",
        Direction.LOWER_IS_BETTER: "lower is better",
        Direction.NEITHER: "no direction",
    }[spec.direction]


def with_meaning(column: str) -> str:
    """The name of a metric in a sentence; a metric of failed answers, which nobody named, with what it says."""
    meaning = _MEANINGS.get(column)
    return f"{column} (share of {meaning})" if meaning else column


def _direction_of(ref: MetricRef) -> ScoreDirection:
    options = dict(ref.options)
    texts = [str(options.get(option, "")) for option in ("name", "better", "stated")]
    return direction_of_score(*texts)


def _answer_metric(
    metrics: Sequence[CommonMetric], answers: ExpectedAnswers
) -> tuple[tuple[str, ...], DecidedBy] | None:
    """The metric that compares answers with the expected ones."""
    # A metric that is 0 throughout cannot read these texts.
    texts = [metric for metric in metrics if metric.mean > 0]
    equal = [metric for metric in metrics if metric.mean >= _LEAST_EQUAL]
    labels, free_text = (_LABEL_METRICS, DecidedBy.LABELS), (_TEXT_METRICS, DecidedBy.TEXTS)
    if answers.are_labels:
        choices = [(equal, labels), (metrics, labels), (texts, free_text), (metrics, free_text)]
    elif answers.are_short:
        choices = [(equal, labels), (texts, free_text), (metrics, labels), (metrics, free_text)]
    else:
        choices = [(texts, free_text), (equal, labels), (metrics, free_text), (metrics, labels)]
    for candidates, (families, by) in choices:
        if name := _first_of(families, candidates):
            return (name,), by
    return None


def _first_of(families: Sequence[str], metrics: Iterable[CommonMetric]) -> str | None:
    """The first in the order of the families of the metrics with the most items, give or take a few; by column.

    Otherwise one item that a metric cannot read would make another one decide.
    """
    candidates = [metric for metric in metrics if metric.family in families]
    most = max((metric.items for metric in candidates), default=0)
    order = [
        (families.index(metric.family), -metric.items, metric.spec.key)
        for metric in candidates
        if metric.items >= _MOST_ITEMS * most
    ]
    return min(order)[-1] if order else None


def _in_order(metrics: Iterable[CommonMetric]) -> tuple[str, ...]:
    """The columns, pass or fail first."""
    order = {family: position for position, family in enumerate(SOURCE_METRICS)}
    ordered = sorted(metrics, key=lambda metric: order.get(metric.family, len(order)))
    return tuple(metric.spec.key for metric in ordered)


def parse_about(text: str | None) -> About | None:
    """The question of a user: "tasks" or "population"; None without one. Raises: `Invalid` for another text."""
    if text is None:
        return None
    try:
        return About(text.upper())
    except ValueError:
        raise Invalid(f"about is {text!r}; it should be 'tasks' or 'population'") from None
