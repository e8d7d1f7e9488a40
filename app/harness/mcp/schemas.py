"""REST schema of the harness settings of ot-bench benchmarks."""

from typing import Annotated

from pydantic import Field

from app.core.schemas import ShortText
from app.harness.schemas import ModelPrice, ModelSettings, RunBudget

Patterns = Annotated[list[ShortText], Field(max_length=100)]


class McpHarnessSettings(RunBudget, ModelSettings):
    """The harness settings of an ot-bench benchmark: which tasks run, and how often.

    The benchmark file defines servers, tasks, limits and model servers. Only the operator provides
    files, because they name programs to start.
    """

    model: ShortText | None = Field(
        default=None,
        description="Run every task with this model instead of the models of the file.",
    )
    scenarios: Patterns = Field(
        default_factory=list,
        description="Run only scenarios with one of these names or patterns; empty: all.",
    )
    tasks: Patterns = Field(
        default_factory=list,
        description="Run only tasks with one of these names or patterns; empty: all.",
    )
    tags: Patterns = Field(
        default_factory=list, description="Run only tasks with one of these tags; empty: all."
    )
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    strict: bool = Field(
        default=False,
        description="Fail the run when a task cannot run, instead of recording an error for the task.",
    )
    prices: Annotated[dict[ShortText, ModelPrice], Field(max_length=100)] = Field(
        default_factory=dict,
        description="Price per model; the cost of a model without a price is unknown.",
    )
