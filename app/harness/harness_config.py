"""The harness settings of a benchmark: bash tasks, an ot-bench file, or an agent of the operator."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from app.harness.bash.schemas import BashHarnessSettings
from app.harness.mcp.schemas import McpHarnessSettings
from app.harness.schemas import AgentHarnessSettings

MCP_SUFFIXES = (".yaml", ".yml")


AnyHarnessSettings: TypeAlias = BashHarnessSettings | McpHarnessSettings | AgentHarnessSettings


def parse_harness(document: Any) -> AnyHarnessSettings:
    """Settings with a provider are those of bash tasks, with a command those of an agent.

    Raises: ValidationError.
    """
    if isinstance(document, AnyHarnessSettings):
        return document
    # A union of the models would report the errors of all of them for every mistake.
    keys = document.keys() if isinstance(document, dict) else {"provider"}
    if "command" in keys:
        return AgentHarnessSettings.model_validate(document)
    model = BashHarnessSettings if "provider" in keys else McpHarnessSettings
    return model.model_validate(document)


HarnessConfig: TypeAlias = Annotated[AnyHarnessSettings, BeforeValidator(parse_harness)]


def validate_harness(dataset_ref: str | None, settings: AnyHarnessSettings) -> str | None:
    """Return the reason why the settings do not match the dataset; None when they do."""
    if dataset_ref is None or isinstance(settings, AgentHarnessSettings):
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
