"""The packages of the extra `harness`: the sandbox of bashkit-eval, and the SDKs of models and of MCP."""

import shlex
import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from mosaico.core.errors import BadUsage

MODULES: Final = ("anthropic", "bashkit", "mcp", "mcp_types", "openai", "questionary")


class MissingHarnessPackages(BadUsage):
    """The harnesses, `mosaico mcp`, and metrics that call a model, need the packages of the extra `harness`; run the
    command in the message, on every worker.
    """


def require_harness_packages() -> None:
    """Call this before an import of one of the packages. Raises: `MissingHarnessPackages`."""
    if any(find_spec(name) is None for name in MODULES):
        # The version: without it pip may search the package index, where the name belongs to another project.
        requirement = shlex.quote(f"mosaico[harness]=={version('mosaico')}")
        raise MissingHarnessPackages(
            "the harnesses, `mosaico mcp`, and metrics that call a model, need more packages; install them with"
            f" `{shlex.quote(sys.executable)} -m pip install {requirement}`"
        )
