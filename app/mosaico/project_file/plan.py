"""What an apply does: the difference between a file and a service. Pure.

A field has three values: that of the file, that of the service, and both as they were at the last apply. What differs
between the service and the last apply is an edit of somebody else, and is not overwritten. Fields that the file does
not name are left alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mosaico.core.edits import is_same_json
from mosaico.core.url_syntax import redact_url
from mosaico.project_file.kinds import ObjectKey, ObjectKind, ProjectFile
from mosaico.project_file.steps import (
    Action,
    ConflictReason,
    FieldChange,
    Leftover,
    ObjectNames,
    ObjectRecord,
    Plan,
    PlanConflict,
    PlanOptions,
    ServiceState,
    Step,
    StoredObject,
    key_of,
)
from mosaico.project_file.vocabulary import (
    ACTIVE,
    IDENTITY,
    PRUNED,
    Fields,
    chosen_id,
    compact,
    default_of,
    is_as_wanted,
    is_hidden,
    seal,
    wanted_fields,
)


def build_plan(content: ProjectFile, state: ServiceState, options: PlanOptions) -> Plan:
    """The difference between a file and a service. The order of objects and records does not matter."""
    planner = _Planner(content, state, options)
    outcomes = [list(planner.compare(key)) for key in sorted(planner.wanted, key=_order)]
    steps = [step for outcome in outcomes for step in outcome if isinstance(step, Step)]
    conflicts = [c for outcome in outcomes for c in outcome if isinstance(c, PlanConflict)]
    pruned = sorted(planner.unnamed(), key=lambda record: _order(key_of(record)), reverse=True)
    ends = [planner.end(record) for record in pruned]
    steps += [step for step in ends if isinstance(step, Step)]
    leftovers = tuple(leftover for leftover in ends if isinstance(leftover, Leftover))
    touched = {step.key for step in steps if step.is_visible} | {c.key for c in conflicts}
    unchanged = len(planner.wanted.keys() - touched)
    return Plan(
        steps=tuple(steps), conflicts=tuple(conflicts), leftovers=leftovers, unchanged=unchanged,
        names=planner.names,
    )  # fmt: skip


def _order(key: ObjectKey) -> tuple[int, str]:
    return list(ObjectKind).index(key.kind), key.path


@dataclass
class _Planner:
    content: ProjectFile
    state: ServiceState
    options: PlanOptions
    wanted: dict[ObjectKey, Fields] = field(init=False)
    own_records: list[ObjectRecord] = field(init=False)
    names: ObjectNames = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = {item.key: wanted_fields(self.content, item) for item in self.content.objects}
        self.own_records = [r for r in self.state.records if r.file == self.content.name]
        self._stored = {(o.kind, o.id): o for o in self.state.objects}
        self._owners = {(r.kind, r.object_id): r.file for r in self.state.records}
        self.names = ObjectNames()
        for stored in self.state.objects:
            if stored.kind is ObjectKind.KPI:
                # Of a page, too: a rule of the file may watch it.
                self.names.keys[stored.kind, stored.id] = ObjectKey(
                    stored.kind, stored.fields["name"]
                )
        for record in self.own_records:
            self.names.keys[record.kind, record.object_id] = key_of(record)
        for key in sorted(self.wanted, key=_order):
            if (object_id := self._find_id(key)) is not None:
                self.names.add(key, object_id)

    def compare(self, key: ObjectKey) -> Iterator[Step | PlanConflict]:
        """The steps and conflicts of an object that the file names."""
        wanted, record = self.wanted[key], self._own_record(key)
        object_id = self.names.ids.get(key) if record is None else record.object_id
        stored = self._stored.get((key.kind, object_id)) if object_id else None
        record = record or self._record_of_former_name(stored)
        if record is not None and record.shown is not None:
            if stored is not None:
                yield from self._change(key, wanted, record, stored)
                return
            if not self.options.overwrite:
                yield PlanConflict(
                    key=key,
                    reason=ConflictReason.DELETED,
                    object_id=record.object_id,
                    record=record,
                )
                return
        if stored is not None and record is None:
            yield from self._take_over(key, wanted, stored)
            return
        if stored is not None:
            # Made by an apply that stopped before it could say so.
            yield from self._change(key, wanted, record, stored)
            return
        yield Step(
            action=Action.CREATE, key=key, object_id=record.object_id if record else chosen_id(key),
            record=record, wanted=wanted, changes=tuple(_new_fields(key, wanted)),
        )  # fmt: skip

    def unnamed(self) -> Iterator[ObjectRecord]:
        """The records of objects that the file no longer names."""
        named = {(key.kind, self.names.ids.get(key)) for key in self.wanted}
        for record in self.own_records:
            is_named = (record.kind, record.object_id) in named or self._is_created_again(record)
            if not self._is_at_named_place(record) and not is_named:
                yield record

    def _is_created_again(self, record: ObjectRecord) -> bool:
        """Whether an apply stopped before it could say so of an endpoint: this one creates it again, and finds it."""
        stored = self._stored.get((record.kind, record.object_id))
        return (
            record.shown is None
            and stored is not None
            and any(
                key.kind is ObjectKind.ENDPOINT and _is_shown_as(wanted, stored)
                for key, wanted in self.wanted.items()
            )
        )

    def _is_at_named_place(self, record: ObjectRecord) -> bool:
        # An endpoint is its recipient, whatever its name.
        return record.kind is not ObjectKind.ENDPOINT and key_of(record) in self.wanted

    def _own_record(self, key: ObjectKey) -> ObjectRecord | None:
        """What the service knows about an object that this file made."""
        if key.kind is not ObjectKind.ENDPOINT:
            return next((r for r in self.own_records if r.path == key.path), None)
        target = {name: self.wanted[key][name] for name in ("channel", "recipient")}
        for record in self.own_records:
            stored = self._stored.get((record.kind, record.object_id))
            # A digest takes time, and what is shown tells most recipients apart.
            if stored is not None and not _is_shown_as(target, stored):
                continue
            if record.kind is key.kind and seal(target, record.id).items() <= record.wanted.items():
                return record
        return None

    def _record_of_former_name(self, stored: StoredObject | None) -> ObjectRecord | None:
        """The record of an object that this file made under a name that it no longer has."""
        for record in self.own_records:
            is_same = stored is not None and (record.kind, record.object_id) == (
                stored.kind,
                stored.id,
            )
            if is_same and not self._is_at_named_place(record):
                return record
        return None

    def end(self, record: ObjectRecord) -> Step | Leftover | None:
        """What becomes of an object that the file no longer names."""
        key, stored = key_of(record), self._stored.get((record.kind, record.object_id))
        if stored is None:
            return Step(action=Action.FORGET, key=key, record=record)
        off = PRUNED.get(record.kind)
        if off is not None and all(is_same_json(stored.fields.get(n), v) for n, v in off.items()):
            return None
        if record.kind is ObjectKind.KPI:
            return self._end_kpi(key, record, stored)
        return self._stop(record) if self.options.prune else Leftover(path=key.path)

    def _end_kpi(
        self, key: ObjectKey, record: ObjectRecord, stored: StoredObject
    ) -> Step | Leftover | None:
        if ObjectKey(ObjectKind.BENCHMARK, key.benchmark or "") not in self.wanted:
            return None  # it goes with its benchmark
        watchers = [
            str(rule.fields["name"])
            for rule in self.state.objects
            if rule.kind is ObjectKind.RULE
            and rule.fields.get("kpi") == stored.id
            and not self._will_watch_other(rule)
        ]
        if watchers:
            return Leftover(path=key.path, reason=f"the alert rule {watchers[0]} watches it")
        return self._stop(record) if self.options.prune else Leftover(path=key.path)

    def _will_watch_other(self, rule: StoredObject) -> bool:
        """Whether the file names another KPI for a rule of its own."""
        key = self.names.keys.get((rule.kind, rule.id))
        wanted = self.wanted.get(key) if key is not None else None
        current = self.names.name_of(ObjectKind.KPI, rule.fields["kpi"])
        return wanted is not None and wanted.get("kpi") != current

    def _stop(self, record: ObjectRecord) -> Step:
        stored = self._stored.get((record.kind, record.object_id))
        off = PRUNED.get(record.kind, {})
        changes = [
            FieldChange(name=name, old=stored.fields.get(name) if stored else None, new=value)
            for name, value in off.items()
        ]
        return Step(
            action=Action.PRUNE, key=key_of(record),
            object_id=record.object_id, stored=stored, record=record, changes=tuple(changes),
        )  # fmt: skip

    def _change(
        self, key: ObjectKey, wanted: Fields, record: ObjectRecord | None, stored: StoredObject
    ) -> Iterator[Step | PlanConflict]:
        current = self.names.in_words_of_file(stored.fields)
        sealed = seal(wanted, record.id) if record is not None else {}
        comparison = _compare_fields(key.kind, wanted, current, record, sealed)
        if comparison.edited and not self.options.overwrite:
            yield PlanConflict(
                key=key, reason=ConflictReason.EDITED, object_id=stored.id,
                changes=comparison.edited, record=record,
            )  # fmt: skip
            return
        changes = comparison.changes + comparison.edited
        common: dict[str, Any] = {
            "key": key, "object_id": stored.id, "stored": stored, "record": record, "wanted": wanted
        }  # fmt: skip
        if changes:
            yield Step(action=Action.CHANGE, changes=changes, **common)
        elif (
            record is None
            or record.wanted != sealed
            or record.shown is None
            or key_of(record) != key
        ):
            yield Step(action=Action.RECORD, **common)

    def _take_over(
        self, key: ObjectKey, wanted: Fields, stored: StoredObject
    ) -> Iterator[Step | PlanConflict]:
        """An object of the same name that this file did not make."""
        current = self.names.in_words_of_file(stored.fields)
        changes = _compare_fields(key.kind, wanted, current, None, {}).changes
        if identity := IDENTITY.get(key.kind):
            # Others may use it, too, such as rules that were made on pages.
            changes = tuple(change for change in changes if change.name not in identity)
            if not changes:
                return
        if self.options.adopt:
            action = Action.CHANGE if changes else Action.RECORD
            yield Step(
                action=action,
                key=key,
                object_id=stored.id,
                stored=stored,
                changes=changes,
                wanted=wanted,
            )
        else:
            yield PlanConflict(
                key=key, reason=ConflictReason.EXISTS, object_id=stored.id, changes=changes,
                owner=self._owners.get((key.kind, stored.id)),
            )  # fmt: skip

    def _find_id(self, key: ObjectKey) -> str | None:
        """The ID of the object that the file means; None for a new one with a generated ID."""
        record = self._own_record(key)
        if record is not None:
            return record.object_id
        same_name = [o.id for o in self.state.objects if self._is_same_object(key, o)]
        return min(same_name) if same_name else chosen_id(key)

    def _is_same_object(self, key: ObjectKey, stored: StoredObject) -> bool:
        if stored.kind is not key.kind:
            return False
        wanted = self.wanted[key]
        if key.kind is ObjectKind.ENDPOINT:
            # The recipients of the other endpoints of this file are known, and are others.
            is_own = any(
                (r.kind, r.object_id) == (stored.kind, stored.id) for r in self.own_records
            )
            return not is_own and _is_shown_as(wanted, stored)
        if key.benchmark is not None:
            benchmark_id = self.names.ids.get(ObjectKey(ObjectKind.BENCHMARK, key.benchmark))
            return stored.benchmark_id == benchmark_id and stored.fields["name"] == wanted["name"]
        return stored.fields["name"] == wanted["name"] or stored.id == chosen_id(key)


def _is_shown_as(target: Fields, stored: StoredObject) -> bool:
    """Whether an endpoint may have a recipient, as far as the service shows it."""
    recipient = str(target["recipient"])
    shown = redact_url(recipient) if is_hidden("recipient", recipient) else recipient
    return stored.kind is ObjectKind.ENDPOINT and (
        (stored.fields["channel"], stored.fields["recipient"]) == (target["channel"], shown)
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    changes: tuple[FieldChange, ...]
    edited: tuple[FieldChange, ...]


def _compare_fields(
    kind: ObjectKind, wanted: Fields, current: Fields, record: ObjectRecord | None, sealed: Fields
) -> _Comparison:
    """The fields to change, and those that somebody else has edited since the last apply."""
    last_wanted = record.wanted if record is not None else {}
    edited_names = _edited_names(current, record)
    changes: list[FieldChange] = []
    edited: list[FieldChange] = []
    for name, value in wanted.items():
        is_applied = name in last_wanted and is_same_json(sealed[name], last_wanted[name])
        if is_applied and name not in edited_names:
            continue
        if is_as_wanted(name, value, current.get(name)):
            continue
        change = FieldChange(
            name=name, old=current.get(name), new=value, is_hidden=is_hidden(name, value)
        )
        (edited if name in edited_names else changes).append(change)
    # Who has edited a field that the file gave up keeps it.
    for name in sorted(last_wanted.keys() - wanted.keys() - edited_names):
        default = default_of(kind, name)
        if not _is_unset(default, current.get(name)):
            changes.append(FieldChange(name=name, old=current.get(name), new=default))
    return _Comparison(tuple(changes), tuple(edited))


def _edited_names(current: Fields, record: ObjectRecord | None) -> set[str]:
    """The fields that differ from what the service showed after the last apply."""
    last_shown = (record.shown if record is not None else None) or {}
    compacted = compact(current)
    return {
        name for name, value in last_shown.items() if not is_same_json(compacted.get(name), value)
    }


def _is_unset(default: Any, shown: Any) -> bool:
    """Whether a shown value is that of a field that was left out."""
    return is_same_json(default, shown) or (default is None and shown is False)


def _new_fields(key: ObjectKey, wanted: Fields) -> Iterable[FieldChange]:
    """The fields of a new object, without those that the file does not write."""
    implied = {**ACTIVE.get(key.kind, {}), "name": key.name}
    for name, value in wanted.items():
        if name not in implied or value != implied[name]:
            yield FieldChange(name=name, old=None, new=value, is_hidden=is_hidden(name, value))
