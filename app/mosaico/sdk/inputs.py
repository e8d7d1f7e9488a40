"""Turns what callers pass as results and metrics into what the computations read."""

import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from mosaico.core.errors import Invalid
from mosaico.core.registry import LoadedPlugin
from mosaico.metrics.registry import load_metrics
from mosaico.project_file.file_benchmark import FileBenchmark, read_file_benchmark
from mosaico.traces.files.column_mapping import require_fields
from mosaico.traces.files.configured_limits import within_configured_limits
from mosaico.traces.files.ignored_fields import NOT_USED
from mosaico.traces.files.ndjson import trace_document
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.result_sources import MappedSource, ResultRows, ResultSource
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import Trace

NO_BENCHMARK: Final = FileBenchmark()


@runtime_checkable
class Frame(Protocol):
    """A data frame of pandas."""

    def notna(self) -> Any: ...
    def astype(self, dtype: Any) -> Any: ...


Results: TypeAlias = str | os.PathLike[str] | Iterable[Mapping[str, Any] | Trace] | Frame
Metrics: TypeAlias = Sequence[str | Mapping[str, Any]]


def source_of(
    results: Results, name: str, columns: Mapping[str, str] | None = None
) -> ResultSource:
    """A path as it is; traces, rows and data frames as rows with a name for messages. `columns` are those of these
    results only.
    """
    source = _unmapped_source(results, name)
    if columns is None:
        return source
    require_fields(columns)
    return MappedSource(source, columns)


def _unmapped_source(results: Results, name: str) -> Path | ResultRows:
    if isinstance(results, str | os.PathLike):
        return Path(results)
    rows: Iterable[Any] = _frame_rows(results) if isinstance(results, Frame) else results
    return ResultRows(name, [_row(row, name, at) for at, row in enumerate(rows, start=1)])


def metrics_text(metrics: Metrics | None) -> str | None:
    """Metrics as the option `--metrics` has them."""
    return metrics if metrics is None or isinstance(metrics, str) else json.dumps(list(metrics))


def benchmark_of(
    config: str | os.PathLike[str] | None,
    benchmark: str | None,
    metrics: Metrics | None,
    remarks: list[str],
) -> FileBenchmark:
    """What the benchmark of a file says about results; `metrics` replace its metrics and KPIs, and a remark says what the
    file sets. Without a file the metrics alone.

    Raises: `Invalid` for a `benchmark` without a `config`, and the errors of `read_file_benchmark`.
    """
    text = metrics_text(metrics)
    if config is None:
        if benchmark is not None:
            raise Invalid(f"benchmark={benchmark!r} needs config=, the file that it is in")
        return FileBenchmark(metrics=text)
    chosen = read_file_benchmark(Path(config), benchmark, os.environ)
    if text is not None:
        chosen = chosen.with_metrics(text, "metrics=")
    remarks += filter(None, [chosen.line])
    return chosen


def require_positive(limits: Mapping[str, float]) -> dict[str, float]:
    """The limits as they are. Raises: `Invalid` for one that is not a positive number."""
    for name, limit in limits.items():
        if not (math.isfinite(limit) and limit > 0):
            raise Invalid(f"the limit {limit!r} for {name} is not a positive number; write 0.05")
    return dict(limits)


def require_deviation(run_sd: float | None) -> float | None:
    """The standard deviation of whole runs as it is. Raises: `Invalid` for one that is not between 0 and 1."""
    if run_sd is not None and not 0 <= run_sd <= 1:
        raise Invalid(
            f"run_sd is {run_sd!r}, which is not between 0 and 1; write 0.015 for 1.5 points"
        )
    return run_sd


def load_metric_plugins() -> None:
    """Load the metrics, once per process; a plugin that fails to load is a warning."""
    load_metrics(_warn_failed_plugin)


def open_reader(
    remarks: list[str],
    columns: Mapping[str, str] | None,
    input_format: str | None,
    options: ReadOptions | None = None,
    benchmark: FileBenchmark = NO_BENCHMARK,
) -> TraceReader:
    """A reader of results that adds what it recognized to `remarks`; the metrics are loaded. `columns` and
    `input_format` have precedence over those of `options`, and these over the columns of the benchmark, whose errors
    of the infrastructure count beside those of `options`.

    Raises: `InvalidMapping` for an unknown field in `columns`.
    """
    options = options or ReadOptions()
    options = replace(
        options,
        mapping={**benchmark.columns, **options.mapping, **(columns or {})},
        format_name=input_format or options.format_name,
        infra_errors=(*options.infra_errors, *benchmark.infra_errors),
    )
    require_fields(options.mapping)
    load_metric_plugins()
    return TraceReader(remarks.append, _warn_failed_plugin, within_configured_limits(options))


def warn_ignored(remarks: Iterable[str]) -> None:
    """Warn of the columns and keys that are not used, where no result has the remarks."""
    for remark in remarks:
        if NOT_USED in remark:
            warnings.warn(remark, stacklevel=3)


def _frame_rows(frame: Frame) -> Iterable[Any]:
    # Missing cells are NaN, NaT or NA, depending on the type of the column.
    rows: Iterable[Any] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows


def _row(row: Any, name: str, number: int) -> dict[str, Any]:
    match row:
        case Trace():
            return trace_document(row)
        case Mapping():
            return {str(column): _plain(cell) for column, cell in row.items()}
        case _:
            raise Invalid(
                f"{name}: row {number}: {row!r:.60} is neither a mapping nor a Trace; pass dicts such"
                ' as {"item": "q1", "output": "…", "expected": "…"}, a data frame or a path'
            )


def _plain(cell: Any) -> Any:
    """A scalar of numpy as a number of Python, which is what JSON has."""
    return cell.item() if type(cell).__module__ == "numpy" and cell.ndim == 0 else cell


def _warn_failed_plugin(plugin: LoadedPlugin) -> None:
    warnings.warn(f"plugin {plugin.name} failed to load: {plugin.error}", stacklevel=2)
