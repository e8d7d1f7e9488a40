"""The files of a gate, and the metrics and KPIs that decide about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from types import MappingProxyType

from mosaico.comparison.deciders import ExpectedAnswers, may_decide
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
from mosaico.items.matrix import (
    is_short_text,
)
from mosaico.metrics.formula_direction import KpiFormulaText
from mosaico.metrics.offline_models import OfflineModels
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader


@dataclass(frozen=True)
class FileInputs:
    """The two files, and what the user said of their scores."""

    sources: tuple[ResultSource, ResultSource]
    reader: TraceReader
    scores: ScoreOptions = field(default_factory=ScoreOptions)

    @cached_property
    def names_by_file(self) -> list[list[str]]:
        """The names of the scores in the first traces of each file."""
        return [self.reader.score_names(source) for source in self.sources]

    def stated_directions(self) -> dict[str, str]:
        """The better direction of the scores that the files state one of, by name."""
        _ = self.names_by_file
        return self.reader.directions

    def expected_answers(self) -> ExpectedAnswers:
        """The expected answers of both files, without the pairing of their items."""
        items = short = 0
        texts = set[int]()
        for source in self.sources:
            with self.reader.open(source) as traces:
                for trace in traces:
                    is_short = is_short_text(trace.expected_output)
                    if is_short is None:
                        continue
                    items += 1
                    short += is_short
                    # Hashes, because the answers may be long.
                    texts.add(hash(trace.expected_output))
        return ExpectedAnswers(items=items, short=short, distinct=len(self.sources) * len(texts))

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
    return selected._replace(
        refs=tuple(may_decide(selected.refs, files.names_by_file, files.expected_answers))
    )


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
) -> OfflineMetrics:
    """The metrics and KPIs that the user names, by default all metrics that files allow, with the scores in the
    files. KPIs decide.

    The registry of metrics must be loaded. Raises as `select_gated`.
    """
    selected = select_metrics(metrics, kpis, models=models)
    if metrics is None and not kpis:
        selected = add_scores(selected, files.score_names())
    selected = with_guard(_with_directions(selected, files, kpis))
    return judge_kpis(selected) if kpis else selected
