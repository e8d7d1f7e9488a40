"""Harness settings of bash benchmarks, as the REST API has them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from app.core.schemas import HttpUrl, ShortText
from app.harness.schemas import ModelPrice, ModelSettings, RunBudget
from app.llm.conversation import Provider, unsupported_reason


class BashHarnessSettings(RunBudget, ModelSettings):
    """The harness settings of a bash benchmark: the model, its limits, and its judge.

    API keys belong to the operator and are never part of a benchmark; a `baseUrl` is called without
    them.
    """

    provider: Provider
    model: ShortText
    base_url: Annotated[HttpUrl, Field(max_length=1000)] | None = None
    judge_model: ShortText | None = Field(
        default=None, description="Model of the same provider that scores the llm_judge checks."
    )
    categories: Annotated[list[ShortText], Field(max_length=100)] = Field(
        default_factory=list, description="Run only the tasks of these categories; empty: all."
    )
    trials: Annotated[int, Field(ge=1, le=100)] = 1
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    max_turns: Annotated[int, Field(ge=1, le=100)] = 10
    task_seconds: Annotated[float, Field(gt=0, le=3600)] = 600.0
    task_tokens: Annotated[int, Field(ge=1)] | None = None
    price: ModelPrice | None = Field(
        default=None, description="Price of the model; without it costs are unknown."
    )
    judge_price: ModelPrice | None = Field(
        default=None,
        description="Price of the judge (default: `price` when the judge is the same model).",
    )

    @model_validator(mode="after")
    def _require_price(self) -> Self:
        if self.run_usd is None:
            return self
        if self.price is None:
            raise ValueError("runUsd needs a price; set price")
        if self.judge_model is not None and self.price_of_judge() is None:
            raise ValueError("runUsd needs the price of the judge; set judgePrice")
        return self

    @model_validator(mode="after")
    def _require_supported_settings(self) -> Self:
        reason = unsupported_reason(self.provider, self.turn_settings())
        if reason is not None:
            raise ValueError(reason)
        return self

    def price_of_judge(self) -> ModelPrice | None:
        """The price of the judge; None when it is unknown."""
        own = self.price if self.judge_model == self.model else None
        return self.judge_price or own
