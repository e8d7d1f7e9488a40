"""What a caller says about a file of results: its form, the meaning of its columns, and limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mosaico.core.errors import Invalid
from mosaico.harness.text_search import InvalidPattern, compile_pattern
from mosaico.traces.references import ListRule

MAX_DOCUMENT_BYTES: Final = 512 * 1024**2
# One cell or line is in memory at a time, several times during its conversion.
MAX_CELL_CHARS: Final = 16 * 1024**2
MAX_LINE_BYTES: Final = 64 * 1024**2


class InvalidLabels(Invalid):
    """The numbers of labels are not readable; write COLUMN=LABEL:NUMBER,LABEL:NUMBER."""

    exit_code = 2


class InvalidInfraError(Invalid):
    """A pattern of errors is not a valid regular expression of RE2; correct it."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The largest parts of a file that are read: a JSON document, a cell of a table, a line.

    `json_values` is the number of values in one JSON text, `unpacked_bytes` the size of what is unpacked at once (a
    member of an archive, a row group, a spreadsheet), `archive_bytes` that of all members. None: no limit.
    """

    document_bytes: int = MAX_DOCUMENT_BYTES
    cell_chars: int = MAX_CELL_CHARS
    line_bytes: int = MAX_LINE_BYTES
    json_values: int | None = None
    unpacked_bytes: int | None = None
    archive_bytes: int | None = None


# A process of the service has other requests to answer: small values take up to thirty times the memory of their
# text, and a file of some kilobytes may unpack to gigabytes.
SERVICE_LIMITS: Final = ReadLimits(
    document_bytes=64 * 1024**2,
    line_bytes=16 * 1024**2,
    # A file of 64 MiB with real conversations has 1.6 million.
    json_values=4_000_000,
    unpacked_bytes=64 * 1024**2,
    archive_bytes=1024**3,
)


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
