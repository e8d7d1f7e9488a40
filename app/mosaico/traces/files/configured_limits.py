"""The limits of files as the settings say: those of the service, and those of a command or a program."""

from collections.abc import Mapping
from dataclasses import replace

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
    # Settings take 0.05 s to import: who imports `mosaico.score` has read nothing yet.
    from mosaico.core.environment import load
    from mosaico.core.import_settings import ImportSettings, import_options

    return replace(options, limits=read_limits(import_options(load(ImportSettings))))
