"""The metrics and KPIs that are computed for two files of traces."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from mosaico.comparison.deciders import GUARDS
from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import better_score, parameter_name, score_range
from mosaico.core.registry import suggest_names
from mosaico.formula import compile_formula
from mosaico.formula.ast import split_filter
from mosaico.gating.rules import NothingToGate
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.formula_direction import (
    KpiFormulaText,
    direction_of_formula,
    direction_warnings,
)
from mosaico.metrics.metric_names import column_of_name, parse_metrics
from mosaico.metrics.model_metrics import is_remote
from mosaico.metrics.offline_models import OfflineModels
from mosaico.metrics.registry import (
    column_of,
    default_keys,
    default_refs,
    names_of,
    plain_keys,
    provider_for,
    ref_of_column,
    score_ref,
)
from mosaico.metrics.run_value import is_counted, is_run_metric
from mosaico.metrics.score_directions import BY_OPTION
from mosaico.metrics.score_ranges import parse_range
from mosaico.metrics.types import ERROR_RATE, Direction, MetricRef
from mosaico.project_file.file_benchmark import FileBenchmark


@dataclass(frozen=True)
class ScoreOptions:
    """What the user said of scores, by name: which direction is `better`, and their `ranges`, such as "0..1"."""

    better: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, str] = field(default_factory=dict)


class OfflineMetrics(NamedTuple):
    """The metrics and KPIs that are computed for both files.

    `columns` are the columns of metrics by the names that a user gave them. `requested` are the
    metrics, by column, and the KPIs, by name, that were named as such. `models` measures. `has_guard`: the metric of failed answers was added.
    `benchmark` has the limits of a valid run, and the clusters of items. `spare` metrics are measured only if one of them may
    decide.
    """

    refs: tuple[MetricRef, ...]
    kpis: tuple[PlannedKpi, ...]
    columns: Mapping[str, str]
    requested: tuple[str, ...]
    models: OfflineModels
    has_guard: bool = False
    benchmark: FileBenchmark = FileBenchmark()
    spare: tuple[MetricRef, ...] = ()

    def with_spare(self) -> "OfflineMetrics":
        """All metrics, those that were spared, too."""
        return self._replace(refs=(*self.refs, *self.spare), spare=())


def select_metrics(
    metrics: str | None,
    kpis: Mapping[str, KpiFormulaText],
    limited: Sequence[str] = (),
    models: OfflineModels | None = None,
) -> OfflineMetrics:
    """The metrics of a list (`parse_metrics`), KPIs by name, and what `limited` names
    besides the KPIs; without any name all metrics with a better side that call no model.

    Raises: `NotFound` for an unknown metric, `Invalid` for a wrong formula and for a value of the
            whole run that is not computed from counts, `LlmNotConfigured` for a metric that calls a
            model when there is none, `NothingToGate` for an empty list.
    """
    named = {} if metrics is None else parse_metrics(metrics)
    if metrics is not None and not named:
        raise NothingToGate(
            f"{parameter_name('--metrics')} is empty; leave it out to judge what measures quality"
        )
    columns = {name: provider_for(ref).spec.key for name, ref in named.items()}
    requested = [columns[name] for name in named if name not in kpis]
    refs = {columns[name]: ref for name, ref in named.items()}
    columns |= {
        name: column_of_name(name) for name in limited if name not in kpis and name not in columns
    }
    known_names = names_of(default_refs(plain_keys()))
    formulas = [compile_formula(text.formula, known_names) for text in kpis.values()]
    # Metrics that only a KPI reads are computed as well.
    read = [column_of(ref.key) for formula in formulas for ref in formula.references]
    for column in (*columns.values(), *read):
        refs.setdefault(column, ref_of_column(column))
    all_refs = tuple(refs.values()) or tuple(_default_metrics())
    for ref in all_refs:
        if is_run_metric(ref) and not is_counted(ref):
            raise Invalid(
                f"the metric {ref.key} cannot be computed from a file of traces; start runs of a"
                " benchmark with it, and name the run IDs"
            )
    models = models or OfflineModels()
    return OfflineMetrics(
        models.with_models(all_refs),
        tuple(_plan_kpi(name, text, all_refs) for name, text in kpis.items()),
        columns=columns,
        requested=(*requested, *kpis),
        models=models,
    )


def add_scores(metrics: OfflineMetrics, names: Iterable[str]) -> OfflineMetrics:
    """The metrics with the scores of these names."""
    refs = [score_ref(name) for name in names]
    return metrics._replace(refs=tuple(dict.fromkeys((*metrics.refs, *refs))))


def with_guard(metrics: OfflineMetrics) -> OfflineMetrics:
    """The metrics with that of failed answers, which every comparison checks."""
    if {ref.key for ref in metrics.refs} & {*GUARDS}:
        return metrics
    return metrics._replace(refs=(*metrics.refs, MetricRef.of(ERROR_RATE)), has_guard=True)


def with_score_options(
    metrics: OfflineMetrics,
    said: ScoreOptions,
    kpis: Mapping[str, KpiFormulaText],
    stated: Mapping[str, str] = MappingProxyType({}),
) -> OfflineMetrics:
    """The metrics with the better direction and the range of scores by name: as the user says, otherwise the direction that
    the files state. The directions of the KPIs follow.

    Raises: `Invalid` for another direction or range, and for a name that is no score of these metrics.
    """
    names = {str(dict(ref.options).get("name")) for ref in metrics.refs if _is_score(ref)}
    for name, direction in said.better.items():
        if direction not in BY_OPTION:
            raise Invalid(f"{direction!r} for {name} is no direction; write higher or lower")
        _require_score(name, names, better_score(name, direction))
    for name, text in said.ranges.items():
        parse_range(text)
        _require_score(name, names, score_range(name))
    options = {"stated": stated, "better": said.better, "range": said.ranges}
    refs = metrics.refs
    for option, texts in options.items():
        refs = tuple(_with_option(ref, option, texts) for ref in refs)
    planned = tuple(_plan_kpi(name, text, refs) for name, text in kpis.items())
    return metrics._replace(refs=refs, kpis=planned)


def _require_score(name: str, names: Collection[str], parameter: str) -> None:
    if name not in names:
        raise Invalid(
            f"{parameter}: there is no score {name!r}."
            f"{suggest_names(name, sorted(names))} Scores: {', '.join(sorted(names)) or 'none'}."
        )


def _with_option(ref: MetricRef, option: str, directions: Mapping[str, str]) -> MetricRef:
    options = dict(ref.options)
    direction = directions.get(str(options.get("name"))) if _is_score(ref) else None
    return ref if direction is None else MetricRef.of(ref.key, {**options, option: direction})


def _is_score(ref: MetricRef) -> bool:
    return split_filter(ref.key).key == "SCORE"


def _default_metrics() -> list[MetricRef]:
    return [
        ref
        for ref in default_refs(default_keys())
        if not (is_remote(ref) or is_run_metric(ref) or _has_no_direction(ref))
    ]


def judge_kpis(metrics: OfflineMetrics, named: Collection[str] = ()) -> OfflineMetrics:
    """Request only the KPIs, as in the service: those of the gate decide, all if none is marked, and the metrics are for
    information. The KPIs that the user `named` decide in any case.
    """
    gates = {kpi.name for kpi in metrics.kpis if kpi.gate}
    judged = gates | {*named} if gates else {kpi.name for kpi in metrics.kpis}
    return metrics._replace(requested=tuple(k.name for k in metrics.kpis if k.name in judged))


def kpi_warnings(metrics: OfflineMetrics) -> list[str]:
    """The reasons to check the directions of the KPIs, each with the name of its KPI."""
    return [
        f"KPI {kpi.name}: {warning}"
        for kpi in metrics.kpis
        for warning in direction_warnings(kpi.formula, Direction(kpi.direction), metrics.refs)
    ]


def kpi_columns(metrics: OfflineMetrics) -> set[str]:
    """The metrics that the KPIs read."""
    return {
        column_of(ref.key)
        for kpi in metrics.kpis
        for ref in compile_formula(kpi.formula).references
    }


def _plan_kpi(name: str, text: KpiFormulaText, metrics: Iterable[MetricRef]) -> PlannedKpi:
    return PlannedKpi(
        id=name,
        revision=1,
        name=name,
        formula=text.formula,
        direction=text.direction or direction_of_formula(text.formula, metrics),
        unit=text.unit,
        threshold_min=text.threshold_min,
        threshold_max=text.threshold_max,
        gate=text.gate,
        min_effect=text.min_effect,
    )


def _has_no_direction(ref: MetricRef) -> bool:
    return provider_for(ref).spec.direction is Direction.NEITHER
