"""The benchmark that judges files of results: its metrics, KPIs and limits, and one line that says what it sets."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mosaico.core.console.files import InvalidInput, read_object
from mosaico.core.defaults import MAX_ERROR_SHARE, MIN_COVERAGE
from mosaico.core.errors import BadUsage, ErrorItem
from mosaico.core.text import count_noun, join_words
from mosaico.metrics.formula_direction import KpiFormulaText

if TYPE_CHECKING:
    from mosaico.project_file.judged_fields import JudgedFields, JudgedKpi

YAML_SUFFIXES: Final = (".yaml", ".yml")


class FileBenchmark(NamedTuple):
    """What a benchmark says about files of results.

    `metrics` is a text for `parse_metrics`, None without any; `kpis` are by name, `infra_errors` patterns of errors
    that are not the agent's, `columns` those of tables by field. `line` says where it is from and what it sets, None without a file.
    """

    metrics: str | None = None
    kpis: Mapping[str, KpiFormulaText] = MappingProxyType({})
    infra_errors: tuple[str, ...] = ()
    min_coverage: float = MIN_COVERAGE
    max_error_share: float = MAX_ERROR_SHARE
    cluster_field: str | None = None
    columns: Mapping[str, str] = MappingProxyType({})
    line: str | None = None

    def with_metrics(self, metrics: str, option: str) -> "FileBenchmark":
        """The benchmark with the metrics that the caller names: they decide, not the KPIs of the file."""
        line = self.line and f"{self.line}; {option} replaces its metrics and KPIs"
        return self._replace(metrics=metrics, kpis=MappingProxyType({}), line=line)


def read_file_benchmark(
    path: Path, name: str | None, environment: Mapping[str, str]
) -> FileBenchmark:
    """The benchmark of a file: JSON of one benchmark, or a project file with the benchmark `name`.

    Raises: `UnreadableInput`, `InvalidInput`, `BadUsage` for a name of a file that is one benchmark; of a project file as `read_benchmark`.
    """
    if path.suffix.lower() not in YAML_SUFFIXES:
        document = read_object(path)
        if "benchmarks" not in document:
            if name is not None:
                raise BadUsage(
                    f"{path} is one benchmark, and has none of the name {name!r}",
                    hint="leave --benchmark out, or name a file such as mosaico.yaml",
                )
            return parse_benchmark(document, str(path))
    # Most callers have JSON or no file: the schema of a project file takes long to import.
    from mosaico.project_file.reading import read_benchmark

    chosen = read_benchmark(path, environment, name)
    return parse_benchmark(chosen.fields, f"{path}: benchmark {chosen.key.name}")


def parse_benchmark(document: Mapping[str, Any], source: str) -> FileBenchmark:
    """What a benchmark in the form of the API says about files; `source` names it. Raises: `InvalidInput`."""
    fields = _checked_fields(document, source)
    kpis = {kpi.name: _formula_text(kpi) for kpi in fields.measures}
    return FileBenchmark(
        metrics=json.dumps(fields.metrics) if fields.metrics else None,
        kpis=kpis,
        infra_errors=tuple(fields.infra_errors),
        min_coverage=fields.min_coverage,
        max_error_share=fields.max_error_share,
        cluster_field=fields.cluster_field,
        columns=fields.columns,
        line=f"{source} sets {'; '.join(_describe(fields, document)) or 'nothing for files'}",
    )


def _checked_fields(document: Mapping[str, Any], source: str) -> "JudgedFields":
    # Only a caller with a file needs the schemas of benchmarks.
    from pydantic import ValidationError

    from mosaico.harness.validation_messages import describe_errors
    from mosaico.project_file.judged_fields import JudgedFields

    # The service writes null for what is not set.
    given = {name: value for name, value in document.items() if value is not None}
    try:
        return JudgedFields.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise InvalidInput(
            f"{source}: the benchmark is not valid",
            hint="write it as in a benchmark of the API: a measure has `name` and `formula`",
            errors=[
                ErrorItem(pointer="/".join(map(str, flaw.path)), detail=flaw.text)
                for flaw in describe_errors(details, given)
            ],
        ) from None


def _formula_text(kpi: "JudgedKpi") -> KpiFormulaText:
    return KpiFormulaText(
        kpi.formula, kpi.direction, unit=kpi.unit, gate=kpi.gate, min_effect=kpi.min_effect,
        threshold_min=kpi.threshold_min, threshold_max=kpi.threshold_max,
    )  # fmt: skip


def _describe(fields: "JudgedFields", document: Mapping[str, Any]) -> Iterator[str]:
    # As above.
    from mosaico.project_file.judged_fields import OF_RUNS_ONLY

    if fields.columns:
        yield f"columns {', '.join(f'{name}={column}' for name, column in fields.columns.items())}"
    if fields.metrics:
        names = [str(m.get("key")) if isinstance(m, dict) else str(m) for m in fields.metrics]
        yield f"metrics {', '.join(names)}"
    gates = [kpi for kpi in fields.measures if kpi.gate] or fields.measures
    if gates:
        formulas = join_words([f"{kpi.name} = {kpi.formula}" for kpi in gates], "and")
        noun, verb = ("KPI", "decides") if len(gates) == 1 else ("KPIs", "decide")
        yield f"{noun} {formulas}, which {verb}"
    if fields.infra_errors:
        yield count_noun(
            len(fields.infra_errors), "pattern of infraErrors", "patterns of infraErrors"
        )
    if fields.min_coverage != MIN_COVERAGE:
        yield f"minCoverage {fields.min_coverage:g}"
    if fields.max_error_share != MAX_ERROR_SHARE:
        yield f"maxErrorShare {fields.max_error_share:g}"
    if fields.cluster_field:
        yield f"clusterField {fields.cluster_field}"
    unused = [name for name in OF_RUNS_ONLY if document.get(name) is not None]
    unused += [f"corrected of {kpi.name}" for kpi in fields.measures if kpi.corrected]
    if unused:
        yield f"not for files: {', '.join(unused)}"
