"""What to say to the user about columns that are not used, or that are read in a certain way; pure."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from mosaico.core.parameter_names import mapped_column, parameter_name
from mosaico.traces.files.cell_paths import list_columns
from mosaico.traces.files.cell_values import as_number, is_percentage
from mosaico.traces.files.column_cells import ColumnCells
from mosaico.traces.files.measure_words import latency_unit


def describe_units(cells: ColumnCells, columns: Iterable[str]) -> dict[str, str]:
    """By column of latencies without a unit: how to name it."""
    notes = {}
    for column in columns:
        numbers = cells.numbers(column)
        if latency_unit(column) == "" and numbers is not None:
            notes[column] = (
                f"the column {column!r} has no unit and is not used (its median is {median(numbers):.4g}); add"
                f" {mapped_column('latencyMs', column)} or {mapped_column('latencySeconds', column)}"
            )
    return notes


def describe_labels(cells: ColumnCells, columns: Iterable[str]) -> dict[str, str]:
    """By column that judges in words, such as Good and Bad, or 4/5: how to read it."""
    notes = {}
    for column in columns:
        labels = cells.judgments(column)
        if labels:
            pairs = ",".join(f"{label}:NUMBER" for label in labels)
            notes[column] = (
                f"the column {column!r} judges in words and is not used; say what they mean:"
                f" {parameter_name('--labels')} '{column}={pairs}'"
            )
    return notes


def describe_shares(columns: Sequence[str]) -> str:
    """That columns of an unknown name are scores because of their values."""
    listed = list_columns(columns)
    return f"numbers from 0 to 1 are read as scores, because nothing else judges: {listed}"


def describe_unnamed(columns: Sequence[str]) -> str:
    """That numbers of an unknown name are not used, and how to use them."""
    return (
        f"numbers that are not used, because no name says that they judge: {list_columns(columns)}; one that does:"
        f" {mapped_column(f'scores[{columns[0]}]', columns[0])}"
    )


def describe_failed_judges(cells: ColumnCells, columns: Iterable[str]) -> Iterator[str]:
    """Columns of scores in which a single negative number may stand for a judge that failed."""
    for column in columns:
        numbers = cells.numbers(column) or []
        failed = numbers.count(-1.0)
        is_range = all(number == -1 or number >= 1 for number in numbers)
        if 0 < failed < len(numbers) and is_range:
            yield (
                f"−1 in {column!r} is read as a score ({failed} of the first {len(numbers)}); if it says that the"
                " judge failed, empty these cells"
            )


def describe_style(cells: ColumnCells, columns: Iterable[str]) -> Iterator[str]:
    """How the numbers of the used columns are written."""
    example = cells.style.example
    if example is not None:
        number = as_number(example, cells.style)
        kind = "a decimal comma" if cells.style.has_decimal_comma else "commas between thousands"
        yield f"numbers have {kind}: {example} is read as {number:.15g}"
    used = (cell for column in columns for cell in cells.cells(column))
    percentage = next((cell for cell in used if is_percentage(cell)), None)
    if percentage is not None:
        number = as_number(percentage, cells.style)
        yield f"percentages are read as shares: {percentage.strip()} is {number:.6g}"
