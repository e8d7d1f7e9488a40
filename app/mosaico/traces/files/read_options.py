"""What a caller says about a file of results: its form, the meaning of its columns, and limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mosaico.core.defaults import (
    IMPORT_COLUMNS,
    IMPORT_PART_MB,
    IMPORT_UNPACKED_MB,
    IMPORT_VALUES,
)
from mosaico.core.errors import Invalid
from mosaico.harness.text_search import InvalidPattern, compile_pattern
from mosaico.traces.references import ListRule

MIB: Final = 1024**2


class InvalidLabels(Invalid):
    """The numbers of labels are not readable; write COLUMN=LABEL:NUMBER,LABEL:NUMBER."""

    exit_code = 2


class InvalidInfraError(Invalid):
    """A pattern of errors is not a valid regular expression of RE2; correct it."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The largest files that are read, whatever reads them; each limit has a setting.

    `part_bytes` is the size of what is in memory at once, unpacked: a JSON document, a line, a member of an archive, a
    row group, a spreadsheet. `unpacked_bytes` is that of all parts of a compressed file, `values` the number of values
    in one JSON text, `columns` that of a table. `cell_chars` finds a quote that is not closed.
    """

    part_bytes: int = IMPORT_PART_MB * MIB
    unpacked_bytes: int = IMPORT_UNPACKED_MB * MIB
    values: int = IMPORT_VALUES
    columns: int = IMPORT_COLUMNS
    cell_chars: int = 16 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a reading.

    `mapping` names columns by field, `format_name` an importer, `encoding` that of a table of text, `sheet` one of a spreadsheet. `labels` are the
    numbers of labels by column, `infra_errors` patterns (RE2) of errors that are not the agent's. With `strict` whatever would be left out is an error.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    format_name: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    expected: ListRule | Literal["any", "all"] | None = None
    labels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    strip_thinking: bool = False
    strip_fences: bool = False
    infra_errors: tuple[str, ...] = ()
    strict: bool = False
    limits: ReadLimits = field(default_factory=ReadLimits)


def parse_labels(texts: Iterable[str]) -> dict[str, dict[str, float]]:
    """The numbers of `grade=A:1,B:0,C:0`, by column and label. Raises: `InvalidLabels`."""
    labels: dict[str, dict[str, float]] = {}
    for text in texts:
        column, equals, pairs = (part.strip() for part in text.partition("="))
        if not (column and equals and pairs):
            raise InvalidLabels(
                f"{text!r:.80} does not have the form COLUMN=LABEL:NUMBER, such as grade=A:1,B:0"
            )
        labels.setdefault(column, {}).update(_parse_pair(pair) for pair in pairs.split(","))
    return labels


def parse_infra_errors(patterns: Iterable[str]) -> tuple[str, ...]:
    """Patterns of errors that are not the agent's. Raises: `InvalidInfraError`."""
    patterns = tuple(patterns)
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except InvalidPattern as error:
            raise InvalidInfraError(
                f"{pattern!r:.80} is not a valid regular expression (RE2): {error}"
            ) from None
    return patterns


def _parse_pair(pair: str) -> tuple[str, float]:
    label, colon, number = (part.strip() for part in pair.rpartition(":"))
    try:
        if colon and label:
            return label, float(number)
    except ValueError:
        pass
    raise InvalidLabels(f"{pair.strip()!r:.80} does not have the form LABEL:NUMBER, such as A:1")
