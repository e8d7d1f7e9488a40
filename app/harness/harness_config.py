"""The harness settings of a benchmark: bash tasks, or an ot-bench file."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from app.harness.bash.schemas import BashHarnessSettings
from app.harness.mcp.schemas import McpHarnessSettings

MCP_SUFFIXES = (".yaml", ".yml")


def parse_harness(document: Any) -> BashHarnessSettings | McpHarnessSettings:
    """Settings with a provider are those of bash tasks. Raises: ValidationError."""
    if isinstance(document, BashHarnessSettings | McpHarnessSettings):
        return document
    # A union of both models would report the errors of both for every mistake.
    is_mcp = isinstance(document, dict) and "provider" not in document
    return (McpHarnessSettings if is_mcp else BashHarnessSettings).model_validate(document)


HarnessConfig: TypeAlias = Annotated[
    BashHarnessSettings | McpHarnessSettings, BeforeValidator(parse_harness)
]


def validate_harness(
    dataset_ref: str | None, settings: BashHarnessSettings | McpHarnessSettings
) -> str | None:
    """Why the settings do not match the dataset; None when they do."""
    if dataset_ref is None:
        return None
    is_mcp_file = dataset_ref.endswith(MCP_SUFFIXES)
    if is_mcp_file == isinstance(settings, McpHarnessSettings):
        return None
    if is_mcp_file:
        return (
            f"{dataset_ref} names its own models; remove provider and its options, write {{}} or"
            ' {"model": …, "trials": …}'
        )
    return 'name the model for these tasks as {"provider": …, "model": …}'
