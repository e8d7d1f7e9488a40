"""The fields of a benchmark that decide about files of results; the others are those of runs of a service."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field

from mosaico.benchmarks.schemas import ClusterField, InfraErrors, MinEffect, Share
from mosaico.core.defaults import MAX_ERROR_SHARE, MIN_COVERAGE
from mosaico.core.schemas import ShortText, WireModel
from mosaico.metrics.types import Direction
from mosaico.traces.files.column_mapping import InvalidMapping, require_fields

OF_RUNS_ONLY: Final = (
    "inputPath", "outputPath", "expectedPath", "redact", "expectItems", "production", "judgeCalibration",
    "minAgreement",
)  # fmt: skip
"""Fields that change values or verdicts of runs, and have no meaning for a file."""


def _check_columns(columns: dict[str, str]) -> dict[str, str]:
    try:
        require_fields(columns)
    except InvalidMapping as error:
        raise ValueError(error.detail) from None
    return columns


FileColumns = Annotated[
    dict[ShortText, str],
    AfterValidator(_check_columns),
    Field(
        description="Columns of files of results by field, as `--map` has them. For commands on files: the service has none."
    ),
]


class JudgedKpi(WireModel):
    """A KPI of a benchmark, as `measures` has it."""

    model_config = ConfigDict(extra="ignore")

    name: ShortText
    formula: ShortText
    direction: Direction | None = None
    unit: ShortText | None = None
    threshold_min: float | None = None
    threshold_max: float | None = None
    gate: bool = False
    min_effect: MinEffect = None
    corrected: bool = False


class JudgedFields(WireModel):
    """What a benchmark says about results, wherever they are."""

    model_config = ConfigDict(extra="ignore")

    metrics: list[Any] = Field(default_factory=list)
    measures: list[JudgedKpi] = Field(default_factory=list)
    infra_errors: InfraErrors = Field(default_factory=list)
    min_coverage: Share = MIN_COVERAGE
    max_error_share: Share = MAX_ERROR_SHARE
    cluster_field: ClusterField = None
    columns: FileColumns = Field(default_factory=dict)
