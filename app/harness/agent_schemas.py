"""Harness settings of benchmarks that run an agent of the operator, as the REST API has them."""

from typing import Annotated

from pydantic import Field

from app.core.schemas import ShortText
from app.harness.schemas import RunBudget


class AgentHarnessSettings(RunBudget):
    """The harness settings of a benchmark that runs an agent over its dataset.

    Only the operator allows commands on the workers, by name (MOSAICO_AGENT_COMMANDS): a benchmark
    never contains a command. The dataset is a file of the harness folder (`questions.csv`),
    `langfuse:NAME` for a dataset in the Langfuse project of the agent, or the name of an upload.
    """

    command: ShortText = Field(description="Name of a command in MOSAICO_AGENT_COMMANDS.")
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    item_seconds: Annotated[float, Field(gt=0, le=3600)] = 600.0
