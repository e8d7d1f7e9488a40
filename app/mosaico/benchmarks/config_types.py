"""Parts of a benchmark that are stored as JSON: triggers, metrics, write-back, baseline, calibration."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from mosaico.core.defaults import MEAN_OF_LAST_RUNS
from mosaico.core.schemas import LongText, ShortText, WireModel
from mosaico.metrics.metric_names import upper_key
from mosaico.metrics.types import MetricRef
from mosaico.statistics.verdict_rules import About


def unacceptable(detail: str) -> PydanticCustomError:
    return PydanticCustomError("unacceptable_value", "{detail}", {"detail": detail})


def described_union(expected: str) -> WrapValidator:
    """Replace the errors of all union members by one that describes the expected value."""

    def check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError:
            raise unacceptable(f"should be {expected}") from None

    return WrapValidator(check)


def expand_metric_name(value: object) -> object:
    return {"key": value} if isinstance(value, str) else value


MAX_OPTION_CHARS = 8000
OptionText = Annotated[str, Field(min_length=1, max_length=MAX_OPTION_CHARS)]
OptionValue = Annotated[
    bool | int | float | OptionText,
    described_union(f"a boolean, a number or a text of 1 to {MAX_OPTION_CHARS} characters"),
]


class MetricSelection(WireModel):
    """A metric and its options; a metric without options may be sent as its name alone."""

    key: Annotated[ShortText, AfterValidator(upper_key)]
    options: dict[str, OptionValue] = Field(default_factory=dict, max_length=20)

    @property
    def ref(self) -> MetricRef:
        return MetricRef.of(self.key, self.options)


class NewRunTrigger(WireModel):
    """A new complete run in the trace source; `pattern` is a glob pattern for its name."""

    pattern: ShortText = "*"


class RemoteExperimentTrigger(WireModel):
    """A user starts a remote experiment in Langfuse."""

    event: Literal["remote-experiment"]
    project_id: ShortText | None = None
    dataset_name: ShortText | None = None


class PromptVersionTrigger(WireModel):
    """A prompt version is created or changed in Langfuse."""

    event: Literal["prompt-version"]
    project_id: ShortText | None = None
    prompt_name: ShortText | None = None
    label: ShortText | None = Field(default=None, description="Filter by label of the version.")


class MonitorAlertTrigger(WireModel):
    """A Langfuse monitor raises an alert."""

    event: Literal["monitor-alert"]
    monitor_id: ShortText | None = None
    severity: ShortText | None = None


LangfuseTrigger = Annotated[
    RemoteExperimentTrigger | PromptVersionTrigger | MonitorAlertTrigger,
    Field(discriminator="event"),
]


class EventTriggers(WireModel):
    """Events that start a run of each agent that the benchmark evaluates; all off by default.

    A Langfuse trigger matches an event if every field that is set equals the field of the event.
    """

    agent_updated: bool = False
    dataset_updated: bool = False
    new_run: NewRunTrigger | None = None
    langfuse: Annotated[list[LangfuseTrigger], Field(max_length=20)] = Field(default_factory=list)

    @property
    def has_any(self) -> bool:
        return bool(self.agent_updated or self.dataset_updated or self.new_run or self.langfuse)


class WriteBackConfig(WireModel):
    """The scores that a completed run writes back to its trace source."""

    kpis: bool = Field(default=False, description="Write KPI values as scores of the run.")
    metrics: bool = Field(default=False, description="Write metric values as scores of each trace.")

    @property
    def is_requested(self) -> bool:
        return self.kpis or self.metrics


class BaselineMode(StrEnum):
    """The automatic choice of a baseline if no run is pinned."""

    PREVIOUS_VALID = "PREVIOUS_VALID"
    MEAN_OF_LAST = "MEAN_OF_LAST"


class BaselineConfig(WireModel):
    """The baseline: the previous valid run, or the mean per item of the last `runs` valid runs."""

    mode: BaselineMode = BaselineMode.PREVIOUS_VALID
    runs: Annotated[int, Field(ge=2, le=30)] = Field(
        default=MEAN_OF_LAST_RUNS, description="Number of runs for MEAN_OF_LAST."
    )
    about: About | None = Field(
        default=None,
        description="The question that decides: TASKS is whether exactly these tasks changed, POPULATION whether other"
        " tasks of this kind would. Without it TASKS, where most tasks have several trials in both runs, otherwise POPULATION.",
    )
    run_sd: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="How much whole runs of an unchanged agent vary beyond their items (standard deviation): points of a"
        " share (0.015), and a fraction of any other value. Without it earlier runs tell it, and an assumption before there are any.",
    )


class GoldAnswer(WireModel):
    """A fixed answer and the score that people gave it."""

    input: LongText | None = None
    expected_output: LongText | None = None
    output: LongText
    gold: float


class JudgeCalibration(WireModel):
    """Judge calibration: each run lets the judge score answers with known gold scores.

    The run is INVALID if the mean distance from the gold scores is above `maxError`.
    """

    # Without the union of `MetricInput`: generators of clients refuse two schemas of one name.
    metric: Annotated[MetricSelection, BeforeValidator(expand_metric_name)]
    answers: Annotated[list[GoldAnswer], Field(min_length=3, max_length=100)]
    max_error: Annotated[float, Field(ge=0)] = 0.1
