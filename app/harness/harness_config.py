"""What a benchmark orders of a harness: tasks in a sandboxed bash, or a file of ot-bench."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from app.harness.bash.schemas import BashHarnessSettings
from app.harness.mcp.schemas import McpHarnessSettings

MCP_SUFFIXES = (".yaml", ".yml")


def parse_harness(value: Any) -> BashHarnessSettings | McpHarnessSettings:
    """The order that names a provider is one of bash tasks. Raises: ValidationError."""
    if isinstance(value, BashHarnessSettings | McpHarnessSettings):
        return value
    is_bench = isinstance(value, dict) and "provider" not in value
    return (McpHarnessSettings if is_bench else BashHarnessSettings).model_validate(value)


HarnessConfig: TypeAlias = Annotated[
    BashHarnessSettings | McpHarnessSettings, BeforeValidator(parse_harness)
]


def validate_harness(
    dataset_ref: str | None, order: BashHarnessSettings | McpHarnessSettings
) -> str | None:
    """Why an order cannot be one for this dataset; None when it can."""
    if dataset_ref is None:
        return None
    is_bench = dataset_ref.endswith(MCP_SUFFIXES)
    if is_bench == isinstance(order, McpHarnessSettings):
        return None
    if is_bench:
        return (
            f"the models of {dataset_ref} are named in it; leave provider and all that belongs to"
            ' it out: {} or {"model": …, "trials": …}'
        )
    return 'name the model that works on these tasks as {"provider": …, "model": …}'
