"""Score results without a server: the computation of `mosaico score`, and what it returns.

Results are a path of a file that `mosaico score` reads, rows (dicts with columns as in such a file),
traces, or a data frame of pandas.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.metrics.aggregate import STATISTICS, Aggregate, reason_name
from mosaico.metrics.file_scores import score_file
from mosaico.metrics.offline_models import LlmOptions, LlmUsage, OfflineModels
from mosaico.sdk.inputs import Metrics, Results, benchmark_of, open_reader, source_of
from mosaico.sdk.tables import frame_of, html_of, text_of
from mosaico.traces.files.read_options import ReadOptions

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """The values of one result by metric; a missing value is None, with its reason in `missing`.

    `reasons` are what a model wrote about its values.
    """

    trace_id: str
    values: Mapping[str, float | None]
    missing: Mapping[str, str]
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scores:
    """The metrics of some results.

    `metrics` has the statistics by metric, `rows` one row for each result, in their order. `kpi` is
    the value of the `formula`; when it is undefined it is None, and `kpi_reason` says why. `kpis` are those of the `config`. `remarks`
    say how the results were read. `llm_usage` is what metrics that call a model took.
    """

    metrics: Mapping[str, Aggregate]
    rows: Sequence[ScoredRow]
    formula: str | None = None
    kpi: float | None = None
    kpi_reason: str | None = None
    kpis: Mapping[str, float | None] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    llm_usage: LlmUsage = field(default_factory=LlmUsage)

    def __getitem__(self, metric: str) -> float | None:
        """The mean of a metric over the items. Raises: `KeyError` for a metric without any value."""
        return self.metrics[metric].mean

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each result: its trace ID and its values. Raises: `MissingPackages`."""
        rows = [{"trace_id": row.trace_id, **row.values} for row in self.rows]
        return frame_of(rows, ("trace_id", *self.metrics))

    def __repr__(self) -> str:
        names = ("mean", "n", "coverage")
        return text_of(self._headline(), ("metric", *names), self._table(names))

    def _repr_html_(self) -> str:
        return html_of(self._headline(), ("metric", *STATISTICS), self._table(STATISTICS))

    def _headline(self) -> str:
        # A script that prints no scores does not load the terminal.
        from mosaico.core.console.table import format_cell

        kpi = f"{self.formula} = {format_cell(self.kpi)}" if self.formula else ""
        return kpi or f"{len(self.rows)} results"

    def _table(self, statistics: Sequence[str]) -> list[list[str]]:
        # As above.
        from mosaico.core.console.table import format_cell

        return [
            [name, *(format_cell(aggregate.statistic(key)) for key in statistics)]
            for name, aggregate in self.metrics.items()
        ]


@messages_for(UserInterface.PYTHON)
def score(
    results: Results,
    *,
    metrics: Metrics | None = None,
    config: str | os.PathLike[str] | None = None,
    benchmark: str | None = None,
    formula: str | None = None,
    columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
    read_options: ReadOptions | None = None,
    llm: LlmOptions | None = None,
) -> Scores:
    """The metrics of some results, and the KPI of a formula over them.

    `metrics` are names such as `"ROUGE"` and objects such as `{"key": "ROUGE", "options":
    {"useStemmer": True}}`; without them, all metrics with a value that call no model are computed. `config` is a file such as `mosaico.yaml` whose
    `benchmark` (by default the only one) names metrics, and errors that are not the agent's.
    `columns` names the columns of fields, such as `{"output": "answer"}`; the others are guessed.
    `read_options` are the further options of reading a file: what a list of expected answers means, the numbers of labels,
    what to strip of the answers, `strict`.
    `llm` has the model server of metrics that call a model, and a budget. Without any result there
    are not rows.
    Raises: `Invalid` for a row, column, option or formula that is not valid, and when no model can be
            called, `NotFound` for an unknown metric, `Unavailable` when the model server does not
            respond, `LlmBudgetExhausted` when a limit of `llm` does not suffice.
    """
    remarks: list[str] = []
    chosen = benchmark_of(config, benchmark, metrics, remarks)
    reader = open_reader(remarks, columns, input_format, read_options, chosen)
    models = OfflineModels(llm)
    source = source_of(results, "results")
    formulas = {name: kpi.formula for name, kpi in chosen.kpis.items()}
    scores = score_file(source, chosen.metrics, formula, reader, models, formulas)
    kpi = scores.kpi
    return Scores(
        metrics=scores.aggregates,
        rows=[
            ScoredRow(
                trace_id=row.trace_id,
                values=dict(zip(scores.aggregates, row.values, strict=True)),
                missing={key: reason_name(missing) for key, missing in row.missing.items()},
                reasons=row.reasons or {},
            )
            for row in scores.rows
        ],
        formula=formula,
        kpi=kpi.value if kpi else None,
        kpi_reason=kpi.reason if kpi else None,
        kpis={name: kpi.value for name, kpi in scores.kpis.items()},
        remarks=[*remarks, *filter(None, [scores.warning])],
        llm_usage=models.usage,
    )
