"""The limits of files as the settings say: those of the service, and those of a command or a program."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mosaico.traces.files.read_options import MIB, ReadLimits, ReadOptions


def read_limits(options: Mapping[str, str]) -> ReadLimits:
    """The limits in the options of `Resources`."""
    # Settings take 0.05 s to import, as below.
    from mosaico.core.import_settings import import_limit

    return ReadLimits(
        part_bytes=int(import_limit(options, "import_part_mb")) * MIB,
        unpacked_bytes=int(import_limit(options, "import_unpacked_mb")) * MIB,
        values=int(import_limit(options, "import_values")),
        columns=int(import_limit(options, "import_columns")),
    )


def within_configured_limits(options: ReadOptions) -> ReadOptions:
    """The options with the limits of the environment, for a reading in this process. Raises: `Misconfigured`."""
    if not _is_configured():
        return options
    # Settings take 0.05 s to import: most commands read files within the default limits, which `options` have.
    from mosaico.core.environment import load
    from mosaico.core.import_settings import ImportSettings, import_options

    return replace(options, limits=read_limits(import_options(load(ImportSettings))))


def _is_configured() -> bool:
    """Return whether the environment may set a limit, itself or by the file `.env` of the working directory."""
    return Path(".env").exists() or any(
        name.upper().startswith("MOSAICO_IMPORT_") for name in os.environ
    )
