"""A plan as lines for people and as JSON; values that the service hides are not printed. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.core.console.terminal import escape_line
from mosaico.core.text import shorten
from mosaico.project_file.kinds import FileObject, ObjectKey, ObjectKind, ProjectFile
from mosaico.project_file.steps import (
    Action,
    ConflictReason,
    FieldChange,
    Leftover,
    Plan,
    PlanConflict,
    Step,
)
from mosaico.project_file.vocabulary import JSON

_SHOWN_CHARS: Final = 80
_HIDDEN: Final = "(hidden)"
# The service says only whether it has this field.
_SET_OR_NOT: Final = "langfuseSecretKey"
_PRUNE_VERBS: Final[Mapping[ObjectKind, str]] = {
    ObjectKind.ENDPOINT: "stop the daily summary",
    ObjectKind.AGENT: "archive",
    ObjectKind.BENCHMARK: "archive",
    ObjectKind.KPI: "remove from later runs",
    ObjectKind.RULE: "disable",
    ObjectKind.SCHEDULE: "disable",
}
_REMEDIES: Final[Mapping[ConflictReason, str]] = {
    ConflictReason.EXISTS: "choose another name, or take it over with --adopt",
    ConflictReason.EDITED: "write the value of the service into the file, or replace it with --overwrite",
    ConflictReason.DELETED: "remove it from the file, or create it again with --overwrite",
}


class PlanReport:
    """What an apply does, for people and for programs."""

    def __init__(self, content: ProjectFile, plan: Plan, editors: Mapping[str, str]) -> None:
        self._objects: dict[ObjectKey, FileObject] = {item.key: item for item in content.objects}
        self._content, self._plan, self._editors = content, plan, editors

    def lines(self) -> Iterator[str]:
        """The difference, the conflicts and what is left over, one object after the other."""
        for step in self._plan.visible_steps:
            yield f"{escape_line(step.key.path)}: {describe_action(step)}"
            yield from (f"  {self._describe_change(step.key, change)}" for change in step.changes)
        for conflict in self._plan.conflicts:
            yield from self._conflict_lines(conflict)
        yield from map(_leftover_line, self._plan.leftovers)

    def summary(self) -> str:
        """The number of objects by what is done with them."""
        counts = Counter(step.action for step in self._plan.visible_steps)
        parts = [f"{counts[action]} to {action}" for action in Action if counts[action]]
        parts += [f"{len(self._plan.conflicts)} in conflict"] if self._plan.conflicts else []
        if not parts:
            return f"nothing to do: {self._plan.unchanged} unchanged"
        return f"{', '.join(parts)}, {self._plan.unchanged} unchanged"

    def document(self, done: int, *, dry_run: bool) -> JSON:
        """The plan as JSON; the first `done` steps were performed."""
        return {
            "name": self._content.name,
            "dryRun": dry_run,
            "steps": [
                {
                    "action": step.action,
                    "path": step.key.path,
                    "id": self._plan.names.ids.get(step.key, step.object_id),
                    "done": number < done,
                    "changes": [self._change_document(step.key, one) for one in step.changes],
                }
                for number, step in enumerate(self._plan.visible_steps)
            ],
            "conflicts": [
                {
                    "reason": conflict.reason,
                    "path": conflict.key.path,
                    "id": conflict.object_id,
                    "owner": conflict.owner,
                    "editor": self._editors.get(conflict.key.path),
                    "changes": [
                        self._change_document(conflict.key, one) for one in conflict.changes
                    ],
                    "remedy": _REMEDIES[conflict.reason],
                }
                for conflict in self._plan.conflicts
            ],
            "leftovers": [
                {"path": leftover.path, "reason": leftover.reason}
                for leftover in self._plan.leftovers
            ],
            "unchanged": self._plan.unchanged,
        }

    def _conflict_lines(self, conflict: PlanConflict) -> Iterator[str]:
        path = escape_line(conflict.key.path)
        match conflict.reason:
            case ConflictReason.EXISTS:
                owner = f"the file {conflict.owner!r}" if conflict.owner else "a page or the API"
                text = f"exists, made by {owner}"
            case ConflictReason.EDITED:
                text = f"edited since the last apply{self._editor_of(path)}"
            case ConflictReason.DELETED:
                text = f"deleted since the last apply{self._editor_of(path)}"
        yield f"conflict: {path}: {text}; {_REMEDIES[conflict.reason]}"
        for change in conflict.changes:
            wanted = self._value(conflict.key, change, change.new)
            shown = self._value(conflict.key, change, change.old, is_old=True)
            yield f"  {change.name}: {wanted} in the file, {shown} in the service"

    def _editor_of(self, path: str) -> str:
        editor = self._editors.get(path)
        return f" (last by {escape_line(editor)})" if editor else ""

    def _describe_change(self, key: ObjectKey, change: FieldChange) -> str:
        new = self._value(key, change, change.new)
        if change.old is None:
            return f"{change.name}: {new}"
        return f"{change.name}: {self._value(key, change, change.old, is_old=True)} → {new}"

    def _change_document(self, key: ObjectKey, change: FieldChange) -> JSON:
        is_variable = change.is_hidden or change.name in self._variables_of(key)
        new = self._value(key, change, change.new) if is_variable else change.new
        return {"field": change.name, "old": change.old, "new": new}

    def _value(
        self, key: ObjectKey, change: FieldChange, value: Any, *, is_old: bool = False
    ) -> str:
        """A value for people: what came from the environment as the file writes it."""
        if is_old and change.name == _SET_OR_NOT:
            return "set" if value else "not set"
        variable = self._variables_of(key).get(change.name)
        if not is_old and variable is not None:
            return escape_line(variable)
        if not is_old and change.is_hidden:
            return _HIDDEN
        return escape_line(shorten(json.dumps(value, ensure_ascii=False), _SHOWN_CHARS))

    def _variables_of(self, key: ObjectKey) -> Mapping[str, str]:
        item = self._objects.get(key)
        return item.variables if item is not None else {}


def describe_action(step: Step) -> str:
    """What a step does with its object."""
    if step.action is Action.PRUNE:
        return f"{_PRUNE_VERBS[step.key.kind]}: the file does not name it"
    return str(step.action)


def _leftover_line(leftover: Leftover) -> str:
    path = escape_line(leftover.path)
    if leftover.reason is None:
        return f"left over: {path}: the file no longer names it; --prune archives it"
    return f"left over: {path}: {escape_line(leftover.reason)}; change or delete that first"
