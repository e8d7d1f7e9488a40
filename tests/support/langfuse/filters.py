"""The filter language of the read endpoints: a JSON list of conditions, combined with AND."""

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], Any]]

_TEXT: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": operator.eq,
    "contains": lambda text, part: part in text,
    "does not contain": lambda text, part: part not in text,
    "starts with": str.startswith,
    "ends with": str.endswith,
}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_OPERATORS: Final[dict[str, Collection[str]]] = {
    "string": _TEXT,
    "stringOptions": ("any of", "none of"),
    "arrayOptions": ("any of", "none of", "all of"),
    "number": _ORDER,
    "datetime": (">", "<", ">=", "<="),
    "boolean": ("=", "<>"),
    "stringObject": _TEXT,
    "numberObject": _ORDER,
    "categoryOptions": ("any of", "none of"),
    "null": ("is null", "is not null"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    type: str
    column: str
    operator: str
    value: Any = None
    key: str | None = None

    def holds(self, actual: Any) -> bool:
        if self.type == "null":
            return (actual is None) == (self.operator == "is null")
        if self.type in ("stringOptions", "arrayOptions"):
            return self._holds_for_options(actual)
        if self.type == "boolean":
            return bool(actual == self.value) == (self.operator == "=")
        if self.type in ("stringObject", "numberObject"):
            actual = (actual or {}).get(self.key)
        if self.type == "categoryOptions":
            labels = {(actual or {}).get(self.key)}
            return bool(set(self.value) & labels) == (self.operator == "any of")
        return actual is not None and self._compares(actual)

    def _compares(self, actual: Any) -> bool:
        if self.type == "datetime":
            return _ORDER[self.operator](actual, datetime.fromisoformat(self.value))
        if self.type in ("number", "numberObject"):
            return _ORDER[self.operator](actual, self.value)
        return _TEXT[self.operator](str(actual), str(self.value))

    def _holds_for_options(self, actual: Any) -> bool:
        present = {actual} if self.type == "stringOptions" else set(actual or ())
        if self.operator == "all of":
            return set(self.value) <= present
        return bool(set(self.value) & present) == (self.operator == "any of")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConditions:
    conditions: tuple[Condition, ...]
    issues: tuple[str, ...]


def read_conditions(content: Any, columns: Collection[str]) -> ReadConditions:
    if not isinstance(content, list):
        return ReadConditions(conditions=(), issues=("Invalid input: expected array",))
    conditions, issues = [], []
    for entry in content:
        issue = _problem(entry, columns)
        if issue is None:
            conditions.append(Condition(**{"value": None, **_known(entry)}))
        else:
            issues.append(issue)
    return ReadConditions(conditions=tuple(conditions), issues=tuple(issues))


def all_hold(conditions: Iterable[Condition], columns: Columns[T], record: T) -> bool:
    return all(condition.holds(columns[condition.column](record)) for condition in conditions)


def wanted(conditions: Iterable[Condition], column: str) -> frozenset[str] | None:
    """The allowed values of a column; None when no condition lists values."""
    values_found: frozenset[str] | None = None
    for condition in conditions:
        if condition.column != column or condition.operator not in ("=", "any of"):
            continue
        value = condition.value
        values = frozenset([value] if isinstance(value, str) else value)
        # All conditions hold together: two lists for one column leave the values in both.
        values_found = values if values_found is None else values_found & values
    return values_found


def _known(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in Condition.__slots__ if name in entry}


def _problem(entry: Any, columns: Collection[str]) -> str | None:
    if not isinstance(entry, dict):
        return "Invalid input: expected object"
    operators = _OPERATORS.get(entry.get("type", ""))
    if operators is None:
        return "Invalid input: no such filter type"
    if entry.get("operator") not in operators:
        return f"Invalid option: no such operator for {entry['type']}"
    if entry.get("column") not in columns:
        return f"Invalid filter column: {entry.get('column')}"
    return _problem_of_value(entry)


def _problem_of_value(entry: Mapping[str, Any]) -> str | None:
    value, kind = entry.get("value"), entry["type"]
    if kind in ("stringOptions", "arrayOptions", "categoryOptions"):
        right = isinstance(value, list) and all(isinstance(text, str) for text in value)
    elif kind in ("string", "stringObject", "datetime"):
        right = isinstance(value, str)
    elif kind == "boolean":
        right = isinstance(value, bool)
    elif kind in ("number", "numberObject"):
        # In Python True is an int; in the JSON of the server it is no number.
        right = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        right = True
    if kind in ("stringObject", "numberObject", "categoryOptions") and not isinstance(
        entry.get("key"), str
    ):
        right = False
    return None if right else f"Invalid input: wrong value for {kind}"
