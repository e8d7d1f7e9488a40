"""Settings of the limits of files and requests with traces, which hold for every interface."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from mosaico.core.defaults import (
    IMPORT_COLUMNS,
    IMPORT_PART_MB,
    IMPORT_SPAN_VALUES,
    IMPORT_UNPACKED_MB,
    IMPORT_VALUES,
)
from mosaico.core.environment import EnvironmentSettings


class ImportSettings(EnvironmentSettings):
    """The limits; `Settings` adds all other settings of a process."""

    import_part_mb: Annotated[
        int,
        Field(
            ge=1,
            le=65_536,
            description="Largest part of a file, in MiB, that is in memory at once: a JSON document, a line, a member"
            " of an archive, a row group of Parquet, a spreadsheet.",
        ),
    ] = IMPORT_PART_MB
    import_unpacked_mb: Annotated[
        int,
        Field(ge=1, le=1_048_576, description="MiB to which a compressed file may unpack."),
    ] = IMPORT_UNPACKED_MB
    import_values: Annotated[
        int,
        Field(
            ge=1000, description="Largest number of JSON values in a document, a line or a member."
        ),
    ] = IMPORT_VALUES
    import_columns: Annotated[
        int, Field(ge=10, description="Largest number of columns of a table.")
    ] = IMPORT_COLUMNS
    import_span_values: Annotated[
        int,
        Field(
            ge=1000,
            description="Largest number of messages in an export of OpenTelemetry: spans, events, attributes and their"
            " values.",
        ),
    ] = IMPORT_SPAN_VALUES
    import_memory_mb: Annotated[
        int,
        Field(
            ge=128,
            le=65_536,
            description="Memory in MiB of a process of the service that reads an upload.",
        ),
    ] = 1024
    import_timeout_s: Annotated[
        int,
        Field(ge=1, le=86_400, description="Seconds in which the service reads an upload."),
    ] = 900


LIMITS: Final = tuple(ImportSettings.model_fields)


def import_options(settings: ImportSettings) -> dict[str, str]:
    """The limits as options of `Resources`."""
    return {name: str(getattr(settings, name)) for name in LIMITS}


def import_limit(options: Mapping[str, str], name: str) -> float:
    """A limit of the options of `Resources`; the default where they have none."""
    default = ImportSettings.model_fields[name].default
    return float(options.get(name) or default)
