"""Score, compare and gate results without a server: the computations of the commands of these names.

Results are a path of a file that `mosaico score` reads, rows (dicts with columns as in such a file),
traces, or a data frame of pandas.
"""

from collections.abc import Mapping
from dataclasses import replace

from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.gating.offline_gate import gate_files, select_gated
from mosaico.gating.rules import GateTerms
from mosaico.metrics.aggregate import reason_name
from mosaico.metrics.file_scores import score_file
from mosaico.metrics.offline_models import LlmOptions, OfflineModels
from mosaico.reporting.file_comparison import compare_results, select_compared
from mosaico.sdk.inputs import (
    Metrics,
    Results,
    metrics_text,
    open_reader,
    require_positive,
    source_of,
)
from mosaico.sdk.results import GateReport, ResultComparison, ScoredRow, Scores

__all__ = ("Metrics", "Results", "compare", "gate", "score")


@messages_for(UserInterface.PYTHON)
def score(
    results: Results,
    *,
    metrics: Metrics | None = None,
    formula: str | None = None,
    columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
    llm: LlmOptions | None = None,
) -> Scores:
    """The metrics of some results, and the KPI of a formula over them.

    `metrics` are names such as `"ROUGE"` and objects such as `{"key": "ROUGE", "options":
    {"useStemmer": True}}`; without them, all metrics with a value that call no model are computed.
    `columns` names the columns of fields, such as `{"output": "answer"}`; the others are guessed.
    `llm` has the model server of metrics that call a model, and a budget. Without any result there
    are not rows.
    Raises: `Invalid` for a row, column, option or formula that is not valid, and when no model can be
            called, `NotFound` for an unknown metric, `Unavailable` when the model server does not
            respond, `LlmBudgetExhausted` when a limit of `llm` does not suffice.
    """
    remarks: list[str] = []
    reader = open_reader(remarks, columns, input_format)
    models = OfflineModels(llm)
    source = source_of(results, "results")
    scores = score_file(source, metrics_text(metrics), formula, reader, models)
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
        remarks=remarks,
        llm_usage=models.usage,
    )


@messages_for(UserInterface.PYTHON)
def compare(
    base: Results,
    candidate: Results,
    *,
    metrics: Metrics | None = None,
    columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
    llm: LlmOptions | None = None,
) -> ResultComparison:
    """The comparison of a candidate with a base: verdict, interval, flipped items.

    `metrics` decide together; without them one primary metric decides. `columns` and `llm` as for
    `score`.
    Raises: as `score`, and `NothingToGate` for a side without results.
    """
    remarks: list[str] = []
    reader = open_reader(remarks, columns, input_format)
    sources = source_of(base, "base"), source_of(candidate, "candidate")
    selected = select_compared(metrics_text(metrics), reader, sources, OfflineModels(llm))
    return ResultComparison(
        files=replace(compare_results(*sources, selected, reader), remarks=remarks),
        llm_usage=selected.models.usage,
    )


@messages_for(UserInterface.PYTHON)
def gate(
    candidate: Results,
    *,
    baseline: Results,
    metrics: Metrics | None = None,
    kpis: Mapping[str, str] | None = None,
    max_drop: Mapping[str, float] | None = None,
    non_inferiority_margins: Mapping[str, float] | None = None,
    inconclusive_passes: bool | None = None,
    columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
    llm: LlmOptions | None = None,
) -> GateReport:
    """Return whether a candidate passes against its baseline: it fails when a change for the worse
    is proved.

    `metrics`, `kpis` (formulas by name) and the names in `max_drop` and `non_inferiority_margins`
    are judged together; without them one primary metric is judged. `max_drop` is the largest change
    for the worse that does not count; `non_inferiority_margins` are changes for the worse that must
    be ruled out. `inconclusive_passes` None lets an inconclusive outcome pass unless such a margin
    requires a proof. `llm` as for `score`.
    Raises: as `compare`, and `Invalid` for a limit that is not a positive number.
    """
    terms = GateTerms(
        max_drop=require_positive(max_drop or {}),
        non_inferiority_margins=require_positive(non_inferiority_margins or {}),
        inconclusive_passes=inconclusive_passes,
    )
    remarks: list[str] = []
    reader = open_reader(remarks, columns, input_format)
    selected = select_gated(metrics_text(metrics), kpis or {}, terms, OfflineModels(llm))
    sources = source_of(baseline, "baseline"), source_of(candidate, "candidate")
    result = gate_files(*sources, selected, terms, reader)
    return GateReport(result=result, remarks=remarks, llm_usage=selected.models.usage)
