"""What a benchmark orders of a harness: tasks in a sandboxed bash, or a file of ot-bench."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from app.harness.bash.schemas import HarnessSettings
from app.harness.mcp.schemas import BenchSettings

BENCH_SUFFIXES = (".yaml", ".yml")


def read_order(value: Any) -> HarnessSettings | BenchSettings:
    """The order that names a provider is one of bash tasks. Raises: ValidationError."""
    if isinstance(value, HarnessSettings | BenchSettings):
        return value
    is_bench = isinstance(value, dict) and "provider" not in value
    return (BenchSettings if is_bench else HarnessSettings).model_validate(value)


HarnessOrder: TypeAlias = Annotated[HarnessSettings | BenchSettings, BeforeValidator(read_order)]


def misfit(dataset_ref: str | None, order: HarnessSettings | BenchSettings) -> str | None:
    """Why an order cannot be one for this dataset; None when it can."""
    if dataset_ref is None:
        return None
    is_bench = dataset_ref.endswith(BENCH_SUFFIXES)
    if is_bench == isinstance(order, BenchSettings):
        return None
    if is_bench:
        return (
            f"the models of {dataset_ref} are named in it; leave provider and all that belongs to"
            ' it out: {} or {"model": …, "trials": …}'
        )
    return 'name the model that works on these tasks as {"provider": …, "model": …}'
