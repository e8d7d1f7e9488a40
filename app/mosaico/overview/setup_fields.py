"""The fields of a setup, and what they mean: a cron expression, who has an agent."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mosaico.metrics.measures import Measure
from mosaico.metrics.types import Direction
from mosaico.traces.registry import list_tools

LOCAL: Final = "local"
# What `fields` of a draft has when nothing was typed.
DEFAULTS: Final[Mapping[str, Any]] = {
    "source": LOCAL, "datasetId": "", "datasetRef": "", "name": "", "measure": "", "also": [],
    "direction": "", "minEffect": "0.02", "neverBelow": "", "agentId": "", "agentName": "",
    "days": "*", "time": "06:30", "timezone": "UTC", "tell": ["regressed", "missing"],
    "channel": "SLACK", "endpoints": [],
}  # fmt: skip
LISTS: Final = ("also", "tell")
DAYS: Final = (("*", "night"), ("1-5", "weekday"))
DIRECTIONS: Final = (
    (Direction.HIGHER_IS_BETTER, "higher ▲"),
    (Direction.LOWER_IS_BETTER, "lower ▼"),
)


class SourceChoice(NamedTuple):
    """A source of traces: how the answers of each night reach it, and what its dataset is called."""

    name: str
    text: str
    repeats: str
    dataset: str


_OWN_SOURCES: Final = (
    SourceChoice(
        LOCAL,
        "an uploaded file",
        "A file has no agent to call. Each night judges the newest upload of this dataset; a night without a new one says"
        " “no new data” and gives no verdict. So something of yours uploads the answers of each night, for example your"
        " CI with an API key:",
        "Name of the dataset",
    ),
    SourceChoice(
        "otel",
        "spans (OpenTelemetry)",
        "Each night reads the spans that your agent has sent to this service for the dataset.",
        "Value of the attribute that names the dataset",
    ),
    SourceChoice(
        "harness",
        "a harness that calls the agent",
        "Each night this service runs the agent itself over a file of tasks in its harness folder.",
        "File of the harness folder",
    ),
)


def list_sources() -> list[SourceChoice]:
    """The sources of this service, and the tools that hold traces."""
    first, *others = _OWN_SOURCES
    tools = [
        SourceChoice(
            name,
            title,
            f"Each night reads the newest run of this dataset in the {title} project of the agent. Whatever runs your agent"
            " over the dataset keeps doing so.",
            f"Name of the dataset in {title}",
        )
        for name, title in list_tools().items()
    ]
    return [first, *tools, *others]


@dataclass(frozen=True, slots=True)
class Setup:
    """The fields of a draft, with those that are not typed at their defaults."""

    fields: Mapping[str, Any]
    measures: Sequence[Measure]

    @classmethod
    def of(cls, fields: Mapping[str, Any], measures: Sequence[Measure]) -> "Setup":
        return cls({**DEFAULTS, **fields}, measures)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def source(self) -> SourceChoice:
        sources = list_sources()
        return next((s for s in sources if s.name == self["source"]), sources[0])

    @property
    def decider(self) -> Measure | None:
        """The measure that decides: the chosen one, otherwise the first that is about quality."""
        chosen = next((m for m in self.measures if m.key == self["measure"]), None)
        return chosen or next((m for m in self.measures if m.is_quality), None)

    @property
    def others(self) -> list[Measure]:
        return [m for m in self.measures if m.key in self["also"] and m is not self.decider]

    @property
    def direction(self) -> Direction:
        typed = self["direction"]
        if typed in {*Direction}:
            return Direction(typed)
        return self.decider.direction if self.decider else Direction.HIGHER_IS_BETTER

    @property
    def name(self) -> str:
        return str(self["name"] or self["datasetRef"])

    @property
    def upload_command(self) -> str:
        """The command that uploads the answers of a night as a new run of the dataset."""
        name = shlex.quote(self["datasetRef"])
        return f"mosaico datasets upload answers.csv --name {name} --run-name $(date +%F)"

    @property
    def cron(self) -> str:
        """The cron expression of the days and the time; what is not a time stays, and its error names it."""
        hour, _, minute = self["time"].partition(":")
        return f"0 {minute or '0'} {hour} * * {self['days']}"
