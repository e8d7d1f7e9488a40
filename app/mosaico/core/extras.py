"""The extras of the package: packages that few need, and the command that installs them."""

import shlex
import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

from mosaico.core.errors import Invalid

Extra: TypeAlias = Literal["harness", "inspect", "ja", "mcp", "models", "pandas", "parquet", "xlsx"]

_MCP: Final = ("mcp", "mcp_types")
_MODELS: Final = ("anthropic", "openai")

# What an extra makes importable.
MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "harness": ("bashkit", "questionary", *_MCP, *_MODELS),
    "inspect": ("zstandard",),
    "ja": ("MeCab", "ipadic"),
    "mcp": _MCP,
    "models": _MODELS,
    "pandas": ("pandas",),
    "parquet": ("pyarrow",),
    "xlsx": ("openpyxl",),
}


class MissingPackages(Invalid):
    """A feature needs packages of an extra; run the command in the message, on every worker and API process."""

    exit_code = 2


def require_extra(extra: Extra, feature: str, *, instead: str = "") -> None:
    """Call this before an import of one of the modules; `instead` says what works without them.

    Raises: `MissingPackages`.
    """
    if not has_extra(extra):
        raise MissingPackages(describe_missing(extra, feature) + instead)


def has_extra(extra: Extra) -> bool:
    """Whether the packages of an extra are installed."""
    return all(map(_is_installed, MODULES[extra]))


def describe_missing(extra: Extra, feature: str) -> str:
    """The error in one line; `feature` is the subject of the sentence, in the plural."""
    return f"{feature} need more packages; install them with `{install_command(extra)}`"


def install_command(extra: Extra) -> str:
    """The command that adds an extra to this environment. Those of `uv tool` have no pip."""
    # The version: without it pip may search the package index, where the name belongs to another project.
    requirement = shlex.quote(f"mosaico[{extra}]=={version('mosaico')}")
    python = shlex.quote(sys.executable)
    if _is_installed("pip"):
        return f"{python} -m pip install {requirement}"
    return f"uv pip install --python {python} {requirement}"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that would contain it
        return False
