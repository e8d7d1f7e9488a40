"""Request parameters, validated like the server does."""

import json
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from starlette.datastructures import QueryParams

from tests.support.langfuse.errors import invalid_data, invalid_request
from tests.support.langfuse.filters import Condition, read_conditions
from tests.support.langfuse.pagination import decode_cursor
from tests.support.langfuse.records import JSON, Key

# Stricter than `fromisoformat`: the server refuses a date without time and a time without zone.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")


class Parameters:
    """Parses parameters; `check` reports all errors at once."""

    def __init__(self, values: QueryParams) -> None:
        self._values = values
        self._issues: list[JSON] = []

    def check(self) -> None:
        if self._issues:
            raise invalid_data(self._issues)

    def refuse(self, message: str, *path: str, code: str = "custom") -> None:
        self._issues.append({"code": code, "path": list(path), "message": message})

    def allow_only(self, names: Iterable[str]) -> None:
        unknown = sorted(set(self._values) - set(names))
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            self.refuse(f"Unrecognized keys: {listed}", code="unrecognized_keys")

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def required(self, name: str) -> str:
        value = self._values.get(name)
        if not value:
            self.refuse("Invalid input: expected string", name, code="invalid_type")
        return value or ""

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A comma-separated list; its values cannot contain a comma."""
        value = self._values.get(name)
        return tuple(part.strip() for part in value.split(",")) if value else None

    def repeated(self, name: str) -> tuple[str, ...] | None:
        """A repeated parameter, not split at commas."""
        return tuple(self._values.getlist(name)) or None

    def number(self, name: str, *, default: int, least: int, most: int | None = None) -> int:
        text = self._values.get(name)
        if not text:
            return default
        if not re.fullmatch(r"-?\d+", text):
            self.refuse("Invalid input: expected number, received NaN", name, code="invalid_type")
            return default
        value = int(text)
        if value < least:
            self.refuse(f"Too small: expected number to be >={least}", name, code="too_small")
        if most is not None and value > most:
            self.refuse(f"Too big: expected number to be <={most}", name, code="too_big")
        return value

    def decimal(self, name: str) -> float | None:
        text = self._values.get(name)
        try:
            return float(text) if text else None
        except ValueError:
            self.refuse("Invalid input: expected number, received NaN", name, code="invalid_type")
            return None

    def truth(self, name: str) -> bool | None:
        text = self._values.get(name)
        if text not in (None, "true", "false"):
            self.refuse('Invalid option: expected one of "true"|"false"', name)
        return None if text is None else text == "true"

    def moment(self, name: str, *, required: bool = False) -> datetime | None:
        text = self._values.get(name)
        if text is None:
            if required:
                message = "Invalid input: expected string, received undefined"
                self.refuse(message, name, code="invalid_type")
            return None
        if not _MOMENT.fullmatch(text):
            self.refuse("Invalid ISO datetime", name, code="invalid_format")
            return None
        return datetime.fromisoformat(text)

    def groups(
        self, allowed: Collection[str], default: Collection[str], *, strict: bool = True
    ) -> frozenset[str]:
        """The field groups; unknown groups are rejected, or ignored if not `strict`."""
        names = self.texts("fields")
        if names is None:
            return frozenset(default)
        for name in names:
            if strict and name not in allowed:
                self.refuse(f"Invalid option: {name}", "fields", code="invalid_value")
        return frozenset(names) & frozenset(allowed)

    def cursor(self) -> JSON | None:
        text = self._values.get("cursor")
        return decode_cursor(text) if text else None

    def conditions(self, columns: Collection[str]) -> tuple[Condition, ...]:
        text = self._values.get("filter")
        if not text:
            return ()
        try:
            content: Any = json.loads(text)
        except ValueError:
            raise invalid_request("Invalid JSON in filter parameter") from None
        parsed_filter = read_conditions(content, columns)
        for issue in parsed_filter.issues:
            self.refuse(issue, "filter", code="invalid_value")
        return parsed_filter.conditions


def cursor_key(cursor: JSON | None, time_name: str) -> Key | None:
    """The key after which the next page starts; raises `ErrorResponse` for another cursor."""
    if cursor is None:
        return None
    try:
        return Key(datetime.fromisoformat(cursor[time_name]), str(cursor["lastId"]))
    except (KeyError, TypeError, ValueError):
        raise invalid_request("Invalid cursor format") from None
