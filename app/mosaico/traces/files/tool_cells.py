"""Cells of the tables of tools: members of an object that may be split into columns, times; pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from mosaico.core.parameter_names import mapped_column
from mosaico.traces.files.cell_values import as_number, is_blank
from mosaico.traces.files.column_words import certainty_of, is_plain_answer, most_certain
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.object_text import find_error, normalize_name
from mosaico.traces.value_text import parse_encoded

_TEXTS: Final[Mapping[str, str]] = {
    "output": "the answer of the agent",
    "expected": "the expected answer",
    "input": "the question",
}


class Ambiguity(NamedTuple):
    """A cell that may be one of several, of which the user must choose one; `detail` says so."""

    detail: str


class EvaluatorFailure(NamedTuple):
    """In place of a score that an evaluator could not compute: it is missing, and nobody's fault."""

    detail: str


class ChosenMember(NamedTuple):
    """A text out of an object of a tool: its name, and those of the members beside it that are not used."""

    value: Any
    name: str
    left_out: tuple[str, ...]


def choose_member(members: Mapping[str, Any], name: str, prefix: str = "") -> Any:
    """The member of an object of a tool that holds a text: the only one, or the one whose name says so, as a `ChosenMember`;
    all members where no name does or where an answer is an error, and an `Ambiguity` of several that may equally hold it.

    `name` is the field of the text, and `prefix` precedes the members in the names of columns.
    """
    if name == "output" and find_error(members) is not None:
        return dict(members)
    candidates = [*members] if len(members) == 1 else most_certain(members, name)
    if name == "expected" and not candidates:
        candidates = most_certain(members, "output")
    filled = [candidate for candidate in candidates if not is_blank(members[candidate])]
    if len(filled) > 1:
        columns = [f"{prefix}{candidate}" for candidate in filled]
        return Ambiguity(
            f"the columns {' and '.join(map(repr, columns))} may each hold {_TEXTS[name]}; choose one:"
            f" {mapped_column(name, columns[0])}"
        )
    if candidates:
        chosen = (filled or candidates)[0]
        others = (f"{prefix}{member}" for member in members if member != chosen)
        value = parse_encoded(members[chosen])
        return ChosenMember(value, f"{prefix}{chosen}", tuple(others)) if filled else value
    parsed = {member: parse_encoded(value) for member, value in members.items()}
    return parsed if any(not is_blank(value) for value in parsed.values()) else None


_ITEM_IDS: Final = (
    "id", "itemid", "questionid", "taskid", "customid", "caseid", "testcaseid", "uid", "key",
)  # fmt: skip


def fields_of_example(
    members: Mapping[str, Any], prefix: str, answers: Collection[str] = ()
) -> dict[str, Any]:
    """The item, the question and the expected answer of an example of a dataset, by the names of its members. `answers` are
    members with those of the agent; an `answer` beside nothing else that is expected is the expected one.
    """
    names = {normalize_name(name): name for name in reversed([*members])}
    ids = [names[name] for name in _ITEM_IDS if name in names]
    free = {n: v for n, v in members.items() if n not in answers and n not in ids}
    expected = {name: value for name, value in free.items() if certainty_of(name, "expected")}
    expected = expected or {name: value for name, value in free.items() if is_plain_answer(name)}
    questions = {name: value for name, value in free.items() if name not in expected}
    return {
        "item": next((members[name] for name in ids if not is_blank(members[name])), None),
        "input": choose_member(questions, "input", prefix),
        "expected": choose_member(expected, "expected", prefix),
    }


def members_of(cells: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The members of the objects in these columns, which may be columns of their own, such as `outputs.answer`."""
    members: dict[str, Any] = {}
    for name in names:
        cell = parse_encoded(cells.get(name))
        if isinstance(cell, Mapping):
            members |= {str(member): value for member, value in cell.items()}
        elif not is_blank(cell):
            members[name] = cell
        prefix = f"{name}."
        members |= {
            column.removeprefix(prefix): value
            for column, value in cells.items()
            if column.startswith(prefix)
        }
    return members


def any_of(answers: Sequence[Any]) -> Any:
    """Several right answers, of which one is enough, as a cell that says so; the only one as it is, None without one."""
    return {"answers": list(answers)} if len(answers) > 1 else next(iter(answers), None)


def seconds_of(cells: Mapping[str, Any], duration: str, start: str, end: str) -> Any:
    """A duration in seconds: a cell of its own, else the time between a start and an end."""
    seconds = cells.get(duration)
    return seconds_between(cells.get(start), cells.get(end)) if seconds is None else seconds


def named_scores(
    entries: Any, name: str = "name", values: Sequence[str] = ("score", "value")
) -> dict[str, Any]:
    """The scores in a list of objects with a name and a value, such as feedback, annotations and metrics: by name the first
    value of these members, and an `EvaluatorFailure` where the object has an error.
    """
    scores: dict[str, Any] = {}
    for entry in objects_of(entries):
        error = (
            entry.get("error")
            or entry.get("error_message")
            or object_of(entry.get("extra")).get("error")
        )
        value = next((entry[v] for v in values if entry.get(v) is not None), None)
        scores[str(entry.get(name))] = EvaluatorFailure(str(error)) if error else value
    return scores


def usage_of(*usages: Any) -> dict[str, Any]:
    """The tokens of one or several requests, in the names of any provider; a count is None where no request has it."""
    sides = {
        "inputTokens": ("prompt_tokens", "input_tokens", "input"),
        "outputTokens": ("completion_tokens", "output_tokens", "output"),
    }
    return {
        field: sum_of([_first(object_of(usage), names) for usage in usages])
        for field, names in sides.items()
    }


def _first(members: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((members[name] for name in names if members.get(name) is not None), None)


def sum_of(value: Any) -> float | None:
    """The sum of all numbers in nested lists, such as tokens by turn and step; None without a number."""
    if isinstance(value, list):
        numbers = [number for member in value if (number := sum_of(member)) is not None]
        return sum(numbers) if numbers else None
    return as_number(value)


def mean_of(values: Iterable[Any]) -> float | None:
    """The mean of the values that are numbers; None without one."""
    numbers = [number for value in values if (number := as_number(value)) is not None]
    return sum(numbers) / len(numbers) if numbers else None


def seconds_between(start: Any, end: Any) -> float | None:
    """The seconds between two points in time, each a number of seconds or in the notation of ISO 8601; None for another
    form, and for an end before its start.
    """
    begin, finish = _seconds_of(start), _seconds_of(end)
    if begin is None or finish is None or finish < begin:
        return None
    return finish - begin


def _seconds_of(moment: Any) -> float | None:
    if not isinstance(moment, str):
        return as_number(moment)
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError, OSError):
        return as_number(moment)
