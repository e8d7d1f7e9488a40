"""The files of a gate, and the metrics and KPIs that decide about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from types import MappingProxyType

from mosaico.comparison.deciders import (
    ExpectedAnswers,
    choose_metrics,
    is_guard,
    is_of_quality,
    judges_both,
)
from mosaico.gating.offline_metrics import (
    OfflineMetrics,
    ScoreOptions,
    add_scores,
    judge_kpis,
    select_metrics,
    with_guard,
    with_score_options,
)
from mosaico.gating.rules import GateTerms
from mosaico.items.matrix import is_short_text
from mosaico.metrics.formula_direction import KpiFormulaText
from mosaico.metrics.offline_models import OfflineModels
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader, score_names_of
from mosaico.traces.types import Trace


@dataclass(frozen=True)
class FileInputs:
    """The two files, and what the user said of their scores."""

    sources: tuple[ResultSource, ResultSource]
    reader: TraceReader
    scores: ScoreOptions = field(default_factory=ScoreOptions)

    @cached_property
    def samples(self) -> list[list[Trace]]:
        """The first traces of each file."""
        return [self.reader.sample(source) for source in self.sources]

    @cached_property
    def names_by_file(self) -> list[list[str]]:
        """The names of the scores in the first traces of each file."""
        return [score_names_of(sample) for sample in self.samples]

    def stated_directions(self) -> dict[str, str]:
        """The better direction of the scores that the files state one of, by name."""
        _ = self.samples
        return self.reader.directions

    def expected_answers(self) -> ExpectedAnswers:
        """The expected answers of the first traces of both files, without the pairing of their items."""
        texts = [
            trace.expected_output
            for trace in chain.from_iterable(self.samples)
            if trace.expected_output is not None
        ]
        return ExpectedAnswers(
            items=len(texts),
            short=sum(is_short_text(text) or False for text in texts),
            distinct=len(self.sources) * len({*texts}),
        )

    def score_names(self) -> list[str]:
        """The names of the scores in the first traces of both files."""
        return list(dict.fromkeys(chain.from_iterable(self.names_by_file)))


def select_gated(
    metrics: str | None,
    kpis: Mapping[str, KpiFormulaText],
    terms: GateTerms,
    files: FileInputs,
    models: OfflineModels | None = None,
) -> OfflineMetrics:
    """The metrics and KPIs that the terms and the user name, by default those that may decide.

    Raises as `select_metrics` and `with_score_options`, and the errors of the reader.
    """
    limited = [*terms.max_drop, *terms.non_inferiority_margins]
    selected = select_metrics(metrics, kpis, limited=limited, models=models)
    if metrics is not None or kpis or limited:
        return with_guard(_with_directions(selected, files, kpis))
    selected = _with_directions(add_scores(selected, files.score_names()), files, kpis)
    guards = filter(is_guard, selected.refs)
    if source := judges_both(selected.refs, files.names_by_file):
        return selected._replace(refs=(*guards, *source))
    quality = [ref for ref in selected.refs if is_of_quality(ref)]
    choice = choose_metrics(quality, files.expected_answers())
    return selected._replace(refs=(*guards, *choice.measured), spare=tuple(choice.spare))


def _with_directions(
    selected: OfflineMetrics, files: FileInputs, kpis: Mapping[str, KpiFormulaText]
) -> OfflineMetrics:
    # Without a score no file is read for the directions.
    has_scores = any(ref.key.startswith("SCORE") for ref in selected.refs)
    stated = files.stated_directions() if has_scores else {}
    return with_score_options(selected, files.scores, kpis, stated)


def select_all(
    metrics: str | None,
    files: FileInputs,
    models: OfflineModels | None = None,
    kpis: Mapping[str, KpiFormulaText] = MappingProxyType({}),
    *,
    is_complete: bool = False,
) -> OfflineMetrics:
    """The metrics and KPIs that the user names, by default what probably decides and the scores in the files; with
    `is_complete` all metrics that files allow. KPIs decide.

    The registry of metrics must be loaded. Raises as `select_gated`.
    """
    selected = select_metrics(metrics, kpis, models=models)
    is_default = metrics is None and not kpis
    if is_default:
        selected = add_scores(selected, files.score_names())
    selected = with_guard(_with_directions(selected, files, kpis))
    if is_default and not is_complete:
        choice = choose_metrics(selected.refs, files.expected_answers())
        selected = selected._replace(refs=tuple(choice.measured), spare=tuple(choice.spare))
    return judge_kpis(selected) if kpis else selected
