"""Which events start runs of a benchmark by themselves, as its field `triggers` says."""

from typing import Annotated, Literal

from pydantic import Field

from app.core.schemas import ShortText, WireModel


class NewRunTrigger(WireModel):
    """A run that is new in the trace source and complete; `pattern` is a glob of its name."""

    pattern: ShortText = "*"


class RemoteExperimentTrigger(WireModel):
    """Somebody asks for an experiment in Langfuse."""

    event: Literal["remote-experiment"]
    project_id: ShortText | None = None
    dataset_name: ShortText | None = None


class PromptVersionTrigger(WireModel):
    """A version of a prompt was made or changed in Langfuse."""

    event: Literal["prompt-version"]
    project_id: ShortText | None = None
    prompt_name: ShortText | None = None
    label: ShortText | None = Field(default=None, description="Only of versions that carry it.")


class MonitorAlertTrigger(WireModel):
    """A monitor of Langfuse raised an alert."""

    event: Literal["monitor-alert"]
    monitor_id: ShortText | None = None
    severity: ShortText | None = None


LangfuseTrigger = Annotated[
    RemoteExperimentTrigger | PromptVersionTrigger | MonitorAlertTrigger,
    Field(discriminator="event"),
]


class EventTriggers(WireModel):
    """Events that start a run of each agent that the benchmark evaluates; all off by default.

    A rule fits when each field that it names is that of the event.
    """

    agent_updated: bool = False
    dataset_updated: bool = False
    new_run: NewRunTrigger | None = None
    langfuse: Annotated[list[LangfuseTrigger], Field(max_length=20)] = Field(default_factory=list)

    @property
    def has_any(self) -> bool:
        return bool(self.agent_updated or self.dataset_updated or self.new_run or self.langfuse)
