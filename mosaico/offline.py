"""Score, compare and gate results without a server: the computations of the commands of these names.

Results are a path of a file that `mosaico score` reads, rows (dicts with columns as in such a file),
traces, or a data frame of pandas.
"""

from collections.abc import Mapping
from dataclasses import replace

from app.gate.file_gate import gate_files, select_gated
from app.gate.rules import GateTerms
from app.metrics.aggregate import reason_name
from app.metrics.file_scores import score_file
from app.reporting.file_comparison import compare_results, select_compared
from mosaico._inputs import (
    Metrics,
    Results,
    metrics_text,
    open_reader,
    require_positive,
    source_of,
)
from mosaico.results import GateReport, ResultComparison, ScoredRow, Scores

__all__ = ("Metrics", "Results", "compare", "gate", "score")


def score(
    results: Results,
    *,
    metrics: Metrics | None = None,
    formula: str | None = None,
    columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
) -> Scores:
    """The metrics of some results, and the KPI of a formula over them.

    `metrics` are names such as `"ROUGE"` and objects such as `{"key": "ROUGE", "options":
    {"useStemmer": True}}`; without them, all metrics with a value are computed. `columns` names the
    columns of fields, such as `{"output": "answer"}`; the others are guessed. Without any result
    there are no rows.
    Raises: `Invalid` for a row, column, option or formula that is not valid, `NotFound` for an
            unknown metric.
    """
    remarks: list[str] = []
    reader = open_reader(remarks, columns, input_format)
    scores = score_file(source_of(results, "results"), metrics_text(metrics), formula, reader)
    kpi = scores.kpi
    return Scores(
        metrics=scores.aggregates,
        rows=[
            ScoredRow(
                trace_id=row.trace_id,
                values=dict(zip(scores.aggregates, row.values, strict=True)),
                missing={key: reason_name(missing) for key, missing in row.missing.items()},
            )
            for row in scores.rows
        ],
        formula=formula,
        kpi=kpi.value if kpi else None,
        kpi_reason=kpi.reason if kpi else None,
        remarks=remarks,
    )


def compare(
    base: Results,
    candidate: Results,
    *,
    metrics: Metrics | None = None,
    columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
) -> ResultComparison:
    """The comparison of a candidate with a base: verdict, interval, flipped items.

    `metrics` decide together; without them one primary metric decides. `columns` as for `score`.
    Raises: as `score`, and `NothingToGate` for a side without results.
    """
    remarks: list[str] = []
    reader = open_reader(remarks, columns, input_format)
    sources = source_of(base, "base"), source_of(candidate, "candidate")
    selected = select_compared(metrics_text(metrics), reader, sources)
    return ResultComparison(
        files=replace(compare_results(*sources, selected, reader), remarks=remarks)
    )


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
) -> GateReport:
    """Whether a candidate passes against its baseline: it fails when a change for the worse is proved.

    `metrics`, `kpis` (formulas by name) and the names in `max_drop` and `non_inferiority_margins`
    are judged together; without them one primary metric is judged. `max_drop` is the largest change
    for the worse that does not count; `non_inferiority_margins` are changes for the worse that must
    be ruled out. `inconclusive_passes` None lets an inconclusive outcome pass unless such a margin
    requires a proof.
    Raises: as `compare`, and `Invalid` for a limit that is not a positive number.
    """
    terms = GateTerms(
        max_drop=require_positive(max_drop or {}),
        non_inferiority_margins=require_positive(non_inferiority_margins or {}),
        inconclusive_passes=inconclusive_passes,
    )
    reader = open_reader([], columns, input_format)
    selected = select_gated(metrics_text(metrics), kpis or {}, terms)
    sources = source_of(baseline, "baseline"), source_of(candidate, "candidate")
    return GateReport(result=gate_files(*sources, selected, terms, reader))
