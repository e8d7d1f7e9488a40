"""Values of foreign result files as values of traces: texts, counts and amounts; pure."""

from collections.abc import Mapping
from typing import Any

from mosaico.core.strict_json import MAX_INTEGER, float_of, is_number
from mosaico.traces.value_text import TextRole, read_text


def text_of(value: Any, role: TextRole = TextRole.ANSWER) -> str | None:
    """A value as text: that of a message, a chat or a response, JSON for other structures; None without a text."""
    return read_text(value, role).text


class TrialCounter:
    """Numbers the occurrences of each item: its trials, from 0."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def next_trial(self, item: str) -> int:
        trial = self._counts.get(item, 0)
        self._counts[item] = trial + 1
        return trial

    def describe(self) -> str | None:
        """Return how many items have several trials, such as `37 items, 2 trials each`; None
        without any.
        """
        repeated = [count for count in self._counts.values() if count > 1]
        if not repeated:
            return None
        fewest, most = min(repeated), max(repeated)
        if len(repeated) == 1:
            return f"1 item with {most} trials"
        trials = f"{most}" if fewest == most else f"{fewest} to {most}"
        return f"{len(repeated)} items, {trials} trials each"


def count_of(value: Any) -> int | None:
    """A count of tokens; None for anything else."""
    if not is_number(value):
        return None
    is_count = 0 <= value <= MAX_INTEGER and value == int(value)
    return int(value) if is_count else None


def amount_of(value: Any, factor: float = 1.0) -> float | None:
    """An amount of money or time, multiplied by a factor; None for anything else."""
    if not is_number(value):
        return None
    amount = float_of(value) * factor
    return amount if 0 <= amount < float("inf") else None


def object_of(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The JSON objects of a list; empty for anything else."""
    return (
        [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []
    )


def model_tags(*models: Any) -> tuple[str, ...]:
    """Return one tag for each distinct model name."""
    return tuple(f"model:{name}" for name in dict.fromkeys(filter(None, map(text_of, models))))
