from typing import Annotated

from pydantic import Field

from app.core.schemas import WireModel
from app.harness.budget import BudgetLimits
from app.llm.prices import Price


class ModelPrice(WireModel):
    """Dollars for a million tokens read and written."""

    input_usd: Annotated[float, Field(ge=0, le=1e6)]
    output_usd: Annotated[float, Field(ge=0, le=1e6)]

    def price(self) -> Price:
        return Price(input_usd=self.input_usd, output_usd=self.output_usd)


class RunBudget(WireModel):
    """What all tasks of a run may use together."""

    run_tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Once a run has used so many, the judge's among them, nothing more is begun.",
    )
    run_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="The same in dollars; needs the prices."
    )

    def run_limits(self) -> BudgetLimits:
        return BudgetLimits(tokens=self.run_tokens, cost_usd=self.run_usd)
