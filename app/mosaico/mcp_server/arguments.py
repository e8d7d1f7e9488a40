"""The arguments of the tools: names or IDs, as a model writes them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mosaico.mcp_server.envelope import open_envelope

MAX_HOURS = 24 * 366

# Names come back as an answer showed them, in their envelope.
_Text = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(open_envelope)]
AgentName = Annotated[_Text, Field(description="Name or ID of the agent.")]
BenchmarkName = Annotated[_Text, Field(description="Name or ID of the benchmark.")]
RunName = Annotated[
    _Text,
    Field(description="ID of the run, its first characters, its run name, or `latest`."),
]
FilePath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4096,
        description="Path of a file of results, below the folder in which the server was started.",
    ),
]


class Arguments(BaseModel):
    """The arguments of a tool; an unknown one is an error, which names it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class WhatGotWorseArguments(Arguments):
    hours: Annotated[
        int, Field(ge=1, le=MAX_HOURS, description="Length of the period that counts as new.")
    ] = 24
    agent: AgentName | None = None
    benchmark: BenchmarkName | None = None
    limit: Annotated[int, Field(ge=1, le=20, description="Largest number of changes.")] = 10


class OfRun(Arguments):
    run: RunName = "latest"
    agent: AgentName | None = None
    benchmark: BenchmarkName | None = None


class WhyArguments(OfRun):
    items: Annotated[int, Field(ge=1, le=10, description="Largest number of items.")] = 5


class CompareRunsArguments(Arguments):
    baseline: RunName
    candidate: RunName = "latest"
    agent: AgentName | None = None
    benchmark: BenchmarkName | None = None
    items: Annotated[int, Field(ge=1, le=25, description="Largest number of items.")] = 10


class ShowTraceArguments(OfRun):
    item: Annotated[_Text | None, Field(description="ID of the item, as `why` shows it.")] = None
    trace: Annotated[_Text | None, Field(description="ID of the trace, in place of the item.")] = (
        None
    )


class KpiTrendArguments(Arguments):
    benchmark: BenchmarkName
    kpi: Annotated[
        _Text | None, Field(description="Name or ID of the KPI; needed if there are several.")
    ] = None
    agent: AgentName | None = None
    limit: Annotated[int, Field(ge=1, le=100, description="Largest number of values.")] = 20


class FindArguments(Arguments):
    kind: Annotated[Literal["agents", "benchmarks", "runs"], Field(description="What to list.")]
    text: Annotated[
        _Text | None, Field(description="A part of the name or ID; without it, all.")
    ] = None
    agent: Annotated[AgentName | None, Field(description="Only runs of this agent.")] = None
    benchmark: Annotated[
        BenchmarkName | None, Field(description="Only runs of this benchmark.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=25, description="Largest number.")] = 20


class GateFilesArguments(Arguments):
    baseline: FilePath
    candidate: FilePath
    benchmark: Annotated[
        _Text | None,
        Field(description="Benchmark of mosaico.yaml in that folder; needed if it has several."),
    ] = None
    metrics: Annotated[
        list[str] | None,
        Field(
            description="Names of metrics to judge; without it, what mosaico.yaml names, or what decides."
        ),
    ] = None
    max_drop: Annotated[
        dict[str, float] | None,
        Field(description="Largest change for the worse that does not count, by metric."),
    ] = None
    non_inferiority_margins: Annotated[
        dict[str, float] | None,
        Field(description="Change for the worse that must be ruled out, by metric."),
    ] = None


class StartRunArguments(Arguments):
    benchmark: BenchmarkName
    agent: AgentName
    run_name: Annotated[
        _Text | None, Field(description="Run of the dataset to read; by default the newest.")
    ] = None
