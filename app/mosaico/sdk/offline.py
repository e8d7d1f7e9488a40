"""Compare and gate results without a server: the computations of the commands of these names.

Results are a path of a file that `mosaico score` reads, rows (dicts with columns as in such a file),
traces, or a data frame of pandas.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mosaico.comparison.answer_text import describe_reading, describe_spared
from mosaico.comparison.deciders import parse_about
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.gating.file_inputs import FileInputs, select_all, select_gated
from mosaico.gating.offline_gate import gate_files
from mosaico.gating.offline_metrics import ScoreOptions, judge_kpis, kpi_warnings
from mosaico.gating.rules import GateTerms
from mosaico.metrics.formula_direction import parse_kpi_text
from mosaico.metrics.offline_models import LlmOptions, OfflineModels
from mosaico.reporting.file_comparison import compare_results
from mosaico.sdk.inputs import (
    Metrics,
    Results,
    benchmark_of,
    open_reader,
    require_deviation,
    require_positive,
    source_of,
)
from mosaico.sdk.results import GateReport, ResultComparison
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.result_sources import ResultSource


@messages_for(UserInterface.PYTHON)
def compare(
    base: Results,
    candidate: Results,
    *,
    metrics: Metrics | None = None,
    config: str | os.PathLike[str] | None = None,
    benchmark: str | None = None,
    better: Mapping[str, str] | None = None,
    ranges: Mapping[str, str] | None = None,
    about: str | None = None,
    all_metrics: bool = False,
    history: Sequence[Results] = (),
    run_sd: float | None = None,
    columns: Mapping[str, str] | None = None,
    base_columns: Mapping[str, str] | None = None,
    candidate_columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
    read_options: ReadOptions | None = None,
    llm: LlmOptions | None = None,
) -> ResultComparison:
    """The comparison of a candidate with a base: verdict, interval, flipped items.

    `metrics` decide together; without them the scores of the results decide, otherwise the metric that fits the expected
    answers. The metrics of answers that do not decide are computed with `all_metrics` only. `config` is a file such as `mosaico.yaml` whose `benchmark` (by default the only one) has metrics, KPIs and
    limits; a remark says what it sets. `better` is the better direction of scores by name, "higher" or "lower", and
    `ranges` are the values between which they lie, such as "0..1": a failed answer without a score has the worst one. `about` is the question that
    decides: "tasks" is whether exactly these tasks changed, "population" whether other tasks of this kind would; without
    it the first where most tasks have several trials in both. `history` are results of earlier runs of the unchanged agent,
    oldest first: they tell how much whole runs vary. `run_sd` states it, as a standard
    deviation: points of a share (0.015), a fraction of any other value. Without both it is assumed. `columns`, `read_options` and `llm` as for
    `score`; `base_columns` and `candidate_columns` name columns of one side only.
    Raises: as `score`, and `NothingToGate` for a side without results.
    """
    remarks: list[str] = []
    chosen = benchmark_of(config, benchmark, metrics, remarks)
    reader = open_reader(remarks, columns, input_format, read_options, chosen)
    sources = (
        source_of(base, "base", base_columns),
        source_of(candidate, "candidate", candidate_columns),
    )
    files = FileInputs(sources, reader, ScoreOptions(better or {}, ranges or {}))
    selected = select_all(
        chosen.metrics, files, OfflineModels(llm), chosen.kpis, is_complete=all_metrics
    )
    selected = selected._replace(benchmark=chosen)
    compared = compare_results(
        *sources, selected, reader, remarks.append, about=parse_about(about),
        earlier=_earlier(history, base_columns), run_sd=require_deviation(run_sd),
    )  # fmt: skip
    remarks.append(describe_reading(compared.comparison, selected.refs, reader.columns))
    remarks += filter(None, [describe_spared(compared.spared)])
    return ResultComparison(
        files=replace(compared, remarks=remarks),
        llm_usage=selected.models.usage,
    )


@messages_for(UserInterface.PYTHON)
def gate(
    candidate: Results,
    *,
    baseline: Results,
    metrics: Metrics | None = None,
    kpis: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
    benchmark: str | None = None,
    better: Mapping[str, str] | None = None,
    ranges: Mapping[str, str] | None = None,
    max_drop: Mapping[str, float] | None = None,
    non_inferiority_margins: Mapping[str, float] | None = None,
    inconclusive_passes: bool | None = None,
    about: str | None = None,
    history: Sequence[Results] = (),
    run_sd: float | None = None,
    columns: Mapping[str, str] | None = None,
    baseline_columns: Mapping[str, str] | None = None,
    candidate_columns: Mapping[str, str] | None = None,
    input_format: str | None = None,
    read_options: ReadOptions | None = None,
    llm: LlmOptions | None = None,
) -> GateReport:
    """Return whether a candidate passes against its baseline: it fails when a change for the worse
    is proved.

    `metrics`, `kpis` (formulas by name, as `LATENCY_MS.p95`, or with a direction, as `OUTPUT_TOKENS higher`) and the
    names in `max_drop` and `non_inferiority_margins` are judged together; without them, what decides `compare`.
    `config`, `benchmark`, `better`, `ranges`, `about`, `history` and `run_sd` as for `compare`. `max_drop` is the largest change
    for the worse that does not count; `non_inferiority_margins` are changes for the worse that must
    be ruled out. `inconclusive_passes` None lets an inconclusive outcome pass unless such a margin
    requires a proof. The columns and `llm` as for `compare`.
    Raises: as `compare`, and `Invalid` for a limit that is not a positive number.
    """
    terms = GateTerms(
        max_drop=require_positive(max_drop or {}),
        non_inferiority_margins=require_positive(non_inferiority_margins or {}),
        inconclusive_passes=inconclusive_passes,
        about=parse_about(about),
        run_sd=require_deviation(run_sd),
    )
    remarks: list[str] = []
    chosen = benchmark_of(config, benchmark, metrics, remarks)
    reader = open_reader(remarks, columns, input_format, read_options, chosen)
    sources = (
        source_of(baseline, "baseline", baseline_columns),
        source_of(candidate, "candidate", candidate_columns),
    )
    files = FileInputs(sources, reader, ScoreOptions(better or {}, ranges or {}))
    formulas = {name: parse_kpi_text(text) for name, text in (kpis or {}).items()}
    planned = {**chosen.kpis, **formulas}
    selected = select_gated(chosen.metrics, planned, terms, files, OfflineModels(llm))
    if chosen.kpis:
        selected = judge_kpis(selected, formulas)
    selected = selected._replace(benchmark=chosen)
    remarks += kpi_warnings(selected)
    result = gate_files(
        *sources, selected, terms, reader, announce=remarks.append, warn=remarks.append,
        earlier=_earlier(history, baseline_columns),
    )  # fmt: skip
    if chosen.line:
        result = replace(result, remarks=[chosen.line, *result.remarks])
    return GateReport(result=result, remarks=remarks, llm_usage=selected.models.usage)


def _earlier(history: Sequence[Results], columns: Mapping[str, str] | None) -> list[ResultSource]:
    """The earlier runs, oldest first, with the columns of the baseline."""
    return [
        source_of(results, f"history[{number}]", columns) for number, results in enumerate(history)
    ]
