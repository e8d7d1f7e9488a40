from typing import Annotated

from pydantic import Field

from app.core.schemas import ShortText
from app.harness.schemas import ModelPrice, RunBudget

Patterns = Annotated[list[ShortText], Field(max_length=100)]


class McpHarnessSettings(RunBudget):
    """What of a file of ot-bench is run, and how often.

    Servers, tasks, limits and where models are asked stand in the file: it is the operator's, for
    it names programs to start.
    """

    model: ShortText | None = Field(
        default=None, description="Does every task, instead of the models that the file names."
    )
    scenarios: Patterns = Field(
        default_factory=list, description="Only scenarios of these names or patterns; empty: all."
    )
    tasks: Patterns = Field(default_factory=list, description="The same for tasks.")
    tags: Patterns = Field(default_factory=list, description="Only tasks with one of these tags.")
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    prices: Annotated[dict[ShortText, ModelPrice], Field(max_length=100)] = Field(
        default_factory=dict, description="By model; without its price a model's cost is unknown."
    )
