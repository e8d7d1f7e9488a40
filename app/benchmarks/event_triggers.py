"""The field `triggers` of a benchmark: events that start runs automatically."""

from typing import Annotated, Literal

from pydantic import Field

from app.core.schemas import ShortText, WireModel


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
