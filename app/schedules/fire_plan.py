"""The plan of one fire of a schedule, as stored in `schedule_fires.plan`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from app.schedules.rules import ConcurrencyPolicy


class FirePlan(BaseModel):
    """The target of a schedule at the time of the claim; later edits affect later instants only.

    The statement `INSERT_FIRES` writes it, so its names are those of the JSON document.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True
    )

    version: Literal[1]
    benchmark_id: str
    agent_id: str
    run_name_pattern: str | None
    concurrency_policy: ConcurrencyPolicy
