"""Checks that the fields of a benchmark fit its trace source."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from mosaico.benchmarks.config_types import WriteBackConfig
from mosaico.core.errors import ErrorItem
from mosaico.harness.harness_config import validate_harness
from mosaico.harness.operator_folder import flaw_of_name
from mosaico.traces.execution.items import LANGFUSE_PREFIX
from mosaico.traces.production import METADATA_PREFIX, ProductionTraces
from mosaico.traces.redaction import RedactionRules
from mosaico.traces.registry import TRACE_SOURCES, SourceSpec

PATH_FIELDS: Final = ("input_path", "output_path", "expected_path")
SOURCE_FIELDS: Final = (
    *("source", "dataset_ref", "run_name", "write_back", "harness", "production"),
    *("redact", "cluster_field"),
    *PATH_FIELDS,
)


def source_fit_errors(values: Mapping[str, Any]) -> list[ErrorItem]:
    """The errors of the `SOURCE_FIELDS` of a benchmark; none for an unknown source, an error itself."""
    source = values["source"]
    spec = None if source is None else TRACE_SOURCES.find(source)
    if source is not None and spec is None:
        return []
    dataset_ref, run_name = values["dataset_ref"], values["run_name"]
    return [
        *_write_back_errors(spec, source, values["write_back"], values["production"]),
        *_harness_errors(spec, source, dataset_ref, values["harness"]),
        *_production_errors(spec, source, dataset_ref or run_name, values["production"]),
        *_path_errors(spec, {name: values[name] for name in PATH_FIELDS}),
        *_redaction_errors(values["redact"], values["cluster_field"], values["production"]),
    ]


def _write_back_errors(
    spec: SourceSpec | None, source: str | None, write_back: WriteBackConfig, production: Any
) -> list[ErrorItem]:
    """An error if the source does not accept scores, or if no run of it is read."""
    if spec is None or not (write_back.kpis or write_back.metrics):
        return []
    if production is not None:
        detail = (
            "production traces do not belong to a dataset run, so scores cannot be written; set "
            "both to false"
        )
        return [ErrorItem(pointer="/writeBack", detail=detail)]
    if spec.write_scores is not None:
        return []
    names = TRACE_SOURCES.names()
    accepting = ", ".join(
        name for name in names if TRACE_SOURCES.get(name).write_scores is not None
    )
    detail = (
        f"the source {source!r} does not accept scores; choose {accepting}, or set both to false"
    )
    return [ErrorItem(pointer="/writeBack", detail=detail)]


def _harness_errors(
    spec: SourceSpec | None, source: str | None, dataset_ref: str | None, harness: Any
) -> list[ErrorItem]:
    """An error if `harness` is missing, not allowed or does not match the dataset, or if the dataset
    is outside of the harness folder. Only sources that run models need it.
    """
    detail = None
    if spec is None:
        if harness is not None:
            detail = (
                'only the source "harness" runs a model; set source to "harness", or omit harness'
            )
    elif harness is None:
        if spec.runs_models:
            detail = (
                f'the source {source!r} runs a model; send {{"provider": …, "model": …}}, {{}} for an'
                ' ot-bench YAML, or {"command": …} for an agent'
            )
    elif spec.runs_models:
        is_langfuse = (dataset_ref or "").startswith(LANGFUSE_PREFIX)
        flaw = None if dataset_ref is None or is_langfuse else flaw_of_name(dataset_ref)
        if flaw is not None:
            return [ErrorItem(pointer="/datasetRef", detail=flaw)]
        detail = validate_harness(dataset_ref, harness)
    else:
        detail = f"the source {source!r} does not run a model; omit harness, or set it to null"
    return [ErrorItem(pointer="/harness", detail=detail)] if detail else []


def _production_errors(
    spec: SourceSpec | None, source: str | None, named_run: str | None, production: Any
) -> list[ErrorItem]:
    """An error if the source has no production traces, or if a dataset or run is named as well."""
    if production is None:
        return []
    detail = None
    if spec is None:
        detail = "name the source of the production traces: set source, for example to langfuse"
    elif not spec.reads_production:
        names = [name for name in TRACE_SOURCES.names() if TRACE_SOURCES.get(name).reads_production]
        choices = f"choose {', '.join(names)}, or " if names else ""
        detail = f"the source {source!r} has no production traces; {choices}omit production"
    elif named_run is not None:
        detail = "production traces belong to no dataset run; set datasetRef and runName to null"
    return [ErrorItem(pointer="/production", detail=detail)] if detail else []


def _path_errors(spec: SourceSpec | None, paths: Mapping[str, str | None]) -> list[ErrorItem]:
    """An error for each path that the source would ignore."""
    if spec is not None and spec.maps_fields:
        return []
    names = [name for name in TRACE_SOURCES.names() if TRACE_SOURCES.get(name).maps_fields]
    detail = (
        f"only the source {' or '.join(names)} uses paths; choose that source, or omit the path"
    )
    return [
        ErrorItem(pointer=f"/{to_camel(name)}", detail=detail)
        for name, path in paths.items()
        if path is not None
    ]


def _redaction_errors(
    rules: RedactionRules | None, cluster_field: str | None, production: ProductionTraces | None
) -> list[ErrorItem]:
    """An error for each attribute that is removed and groups traces: all of them would be one group."""
    item_key = production.item_key if production else None
    groups = {
        "/clusterField": cluster_field,
        "/production/itemKey": item_key and item_key.removeprefix(METADATA_PREFIX),
    }
    return [
        ErrorItem(
            pointer=pointer,
            detail=f"groups traces by {name}, which redact.paths removes; name another attribute, or keep this one",
        )
        for pointer, name in groups.items()
        if name and rules and name in rules.paths
    ]
