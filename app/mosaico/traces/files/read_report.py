"""What was read of a file: results, what was opened to find a text, and what was left out, counted by reason."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mosaico.core.parameter_names import parameter_name
from mosaico.traces.error_groups import ErrorTally
from mosaico.traces.files.ignored_fields import MAX_NAMES, NOT_USED, describe_more
from mosaico.traces.model_responses import ValueForm
from mosaico.traces.value_text import NoText, ValueText

MAX_PLACES: Final = 3
MAX_MEMBERS: Final = 5
OTHERS: Final = "others"
# A table that lost a larger share of its rows says so first.
LOST_SHARE: Final = 0.05


class LostRows:
    """Rows without a result, with the first places."""

    def __init__(self) -> None:
        self.places: dict[str, list[str]] = {}
        self.counts: Counter[str] = Counter()

    def add(self, reason: str, place: str) -> None:
        self.counts[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < MAX_PLACES:
            places.append(place)

    def describe(self) -> Iterator[str]:
        """Each reason with its count and its first places: "2 rows without any text: line 3, line 5"."""
        for reason, count in self.counts.items():
            places = self.places[reason]
            more = f" and {count - len(places)} more" if count > len(places) else ""
            yield f"{reason}: {', '.join(places)}{more}"


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """Counts of a reading, which grow while its results are read.

    `rows` are those of the file, `lost_rows` those without a result. `odd_cells` are cells that are missing values
    because they do not fit their column. `mixed` are rows whose item is doubtful. `opened` counts the forms whose texts were taken, by field.
    """

    rows: int = 0
    lost_rows: LostRows = field(default_factory=LostRows)
    odd_cells: LostRows = field(default_factory=LostRows)
    mixed: LostRows = field(default_factory=LostRows)
    errors: ErrorTally = field(default_factory=ErrorTally)
    opened: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    tool_answers: Counter[str] = field(default_factory=Counter)
    thinking: int = 0
    several_expected: int = 0
    # Why items can only be paired by their place in the file: said first.
    by_position: str = ""

    def add_text(self, name: str, reading: ValueText) -> None:
        """Count how the text of a field was found."""
        if reading.form is ValueForm.TEXT:
            return
        if reading.is_unwrapped or reading.form is ValueForm.JSON:
            self.opened[f"{name} from {reading.form}"] += 1
        for member in reading.left_out:
            path = f"{name}.{member}"
            # A file can have a new name on every line: the others are counted together.
            self.left_out[
                path if path in self.left_out or len(self.left_out) < MAX_NAMES else OTHERS
            ] += 1
        if reading.reason is NoText.TOOL_CALLS:
            self.tool_answers.update(call.name for call in reading.tool_calls[:1])

    @property
    def lost_count(self) -> int:
        return self.lost_rows.counts.total()

    def describe_loss(self) -> str:
        """How many rows are lost, when it is more than a few; empty otherwise."""
        if not self.rows or self.lost_count <= LOST_SHARE * self.rows:
            return ""
        share = 100 * self.lost_count / self.rows
        return f"{self.lost_count} of {self.rows} rows are lost ({share:.0f} %)"

    def describe_opened(self) -> Iterator[str]:
        """What was opened to find a text, and options for what models add."""
        if self.opened:
            opened = ", ".join(f"{form} {count}" for form, count in self.opened.most_common())
            members = f" (without {self.describe_members()})" if self.left_out else ""
            yield f"texts: {opened}{members}"
        if self.several_expected:
            yield f"several right answers: {self.several_expected} items; metrics take the best"
        if self.tool_answers:
            names = ", ".join(f"{name} {count}" for name, count in self.tool_answers.most_common(3))
            yield f"answers that are tool calls without a text count as empty: {names}"
        if self.thinking:
            name = parameter_name("--strip-thinking")
            yield f"answers with thoughts such as <think>: {self.thinking}; {name} leaves them out"

    def describe_members(self) -> str:
        """The members beside the texts, which are left out, with their counts."""
        listed = [f"{path} {count}" for path, count in self.left_out.most_common(MAX_MEMBERS)]
        return ", ".join(listed) + describe_more(len(self.left_out) - len(listed))

    def describe_left_out(self) -> Iterator[str]:
        """The rows and cells that were left out, by reason."""
        yield from self.lost_rows.describe()
        yield from self.odd_cells.describe()


@dataclass(slots=True, kw_only=True)
class ReadReport:
    """What was read of one file: its form and columns, the number of its results so far, counts, and sentences about
    what was guessed or is not used.
    """

    name: str
    summary: str
    columns: Mapping[str, str]
    counts: ReadCounts
    notes: Sequence[str]
    results: int = 0

    @property
    def head(self) -> str:
        """The form of the file and its columns, after what may make a comparison wrong."""
        columns = [f"{field}={column}" for field, column in self.columns.items()]
        more = len(columns) - MAX_COLUMNS
        listed = ", ".join(columns[:MAX_COLUMNS]) + (f" and {more} more" if more > 0 else "")
        loss = self.counts.describe_loss()
        doubts = (loss, self.counts.by_position, *self.counts.mixed.describe())
        return "; ".join(filter(None, (*doubts, self.summary, listed)))

    def lines(self) -> Iterator[str]:
        """At most four lines: the form and the columns, what was opened, what was left out, what else to know."""
        parts = (
            [self.head],
            self.counts.describe_opened(),
            [*self.counts.describe_left_out(), *(note for note in self.notes if NOT_USED in note)],
            [
                *self.counts.errors.describe(),
                *(note for note in self.notes if NOT_USED not in note),
            ],
        )
        for part in parts:
            line = "; ".join(part)
            if line:
                yield f"{self.name}: {line}"

    def describe_left_out(self) -> list[str]:
        """Everything that is not used, for a reading that must use everything."""
        counted = [*self.counts.describe_left_out()]
        members = [f"members of texts: {self.counts.describe_members()}"] * bool(
            self.counts.left_out
        )
        unused = ("not used", "no unit")
        counted += self.counts.mixed.describe()
        return counted + members + [n for n in self.notes if any(text in n for text in unused)]


MAX_COLUMNS: Final = 12
