"""Settings that the benchmarks of both harnesses share."""

from typing import Annotated

from pydantic import Field

from app.core.schemas import WireModel
from app.harness.budget import BudgetLimits
from app.llm.prices import Price


class ModelPrice(WireModel):
    """US dollars per million input and output tokens."""

    input_usd: Annotated[float, Field(ge=0, le=1e6)]
    output_usd: Annotated[float, Field(ge=0, le=1e6)]

    def price(self) -> Price:
        return Price(input_usd=self.input_usd, output_usd=self.output_usd)


class RunBudget(WireModel):
    """Limits of a whole run."""

    run_tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Token limit of the run, judges included; no attempt starts after it is reached.",
    )
    run_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Cost limit of the run in US dollars; needs prices."
    )

    def run_limits(self) -> BudgetLimits:
        return BudgetLimits(tokens=self.run_tokens, cost_usd=self.run_usd)
