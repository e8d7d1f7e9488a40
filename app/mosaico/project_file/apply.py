"""Reads a service and changes it by a plan, over its API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mosaico.core.console.api_client import ApiClient
from mosaico.core.errors import Conflict, Invalid, NotFound
from mosaico.core.ids import new_id
from mosaico.core.web.page_paths import path_of
from mosaico.project_file.kinds import ObjectKey, ObjectKind, ProjectFile
from mosaico.project_file.steps import (
    Action,
    ConflictReason,
    ObjectNames,
    ObjectRecord,
    PlanConflict,
    ServiceState,
    Step,
    StoredObject,
)
from mosaico.project_file.vocabulary import (
    JSON,
    PATHS,
    PRUNED,
    api_body,
    chosen_id,
    compact,
    seal,
    shown_fields,
)

RECORDS: Final = "/project-objects"
# The collections of the audit log that have other names than those of the API.
_AUDIT_NAMES: Final[Mapping[ObjectKind, str]] = {
    ObjectKind.ENDPOINT: "endpoints",
    ObjectKind.AGENT: "agents",
    ObjectKind.BENCHMARK: "benchmarks",
    ObjectKind.KPI: "kpis",
    ObjectKind.RULE: "alert-configs",
    ObjectKind.SCHEDULE: "schedule-configs",
}


def read_service(api: ApiClient) -> ServiceState:
    """The objects of a service that a file can describe, archived ones too, and the records of files."""
    objects = [_stored(kind, view) for kind, view in _views(api)]
    records = [_record(view) for view in api.items(RECORDS)]
    return ServiceState(objects=objects, records=records)


def _views(api: ApiClient) -> Iterator[tuple[ObjectKind, JSON]]:
    for view in api.items(PATHS[ObjectKind.ENDPOINT]):
        yield ObjectKind.ENDPOINT, view
    for kind in (ObjectKind.AGENT, ObjectKind.BENCHMARK):
        for archived in (False, True):
            for view in api.items(PATHS[kind], archived=archived):
                yield kind, view
                for kpi in view.get("measures", ()):
                    yield ObjectKind.KPI, kpi
    for kind in (ObjectKind.RULE, ObjectKind.SCHEDULE):
        for view in api.items(PATHS[kind]):
            yield kind, view


def _stored(kind: ObjectKind, view: JSON) -> StoredObject:
    return StoredObject(
        kind=kind,
        id=view["id"],
        fields=shown_fields(kind, view),
        benchmark_id=view.get("benchmarkId"),
        revision=view.get("revision"),
    )


def _record(view: JSON) -> ObjectRecord:
    return ObjectRecord(
        id=view["id"], file=view["file"], path=view["path"], kind=ObjectKind(view["kind"]),
        object_id=view["objectId"], wanted=view["wanted"], shown=view["shown"],
    )  # fmt: skip


def find_editors(api: ApiClient, conflicts: tuple[PlanConflict, ...]) -> dict[str, str]:
    """Who edited each conflicting object last and when, by its path; without an entry where the audit log has none."""
    editors = {}
    for conflict in conflicts:
        if conflict.reason is ConflictReason.EXISTS:
            continue
        entries = api.page(
            "/audit", limit=1, resourceType=_AUDIT_NAMES[conflict.key.kind],
            resourceId=conflict.object_id, outcome="done",
        )["items"]  # fmt: skip
        if entries:
            [entry] = entries
            name = entry["actorName"] or entry["actorId"]
            editors[conflict.key.path] = f"{name}, {entry['at']}"
    return editors


@dataclass
class Applier:
    """Performs the steps of a plan one after the other; `done` are those that changed an object."""

    api: ApiClient
    content: ProjectFile
    names: ObjectNames
    done: list[Step] = field(default_factory=list)

    def perform(self, step: Step) -> None:
        """Perform one step. Raises: the errors of the API."""
        match step.action:
            case Action.CREATE:
                self._create(step)
            case Action.CHANGE:
                self._change(step)
            case Action.PRUNE:
                self._prune(step)
            case Action.RECORD:
                assert step.stored is not None
                self._save(step, step.stored.id, step.stored)
            case Action.FORGET:
                assert step.record is not None
                self.api.delete(f"{RECORDS}{path_of(step.record.id)}")
        if step.is_visible:
            self.done.append(step)

    def _create(self, step: Step) -> None:
        kind = step.key.kind
        if kind is ObjectKind.ENDPOINT:
            # Its ID is that of its recipient: a repetition finds the same one.
            view = self.api.post(PATHS[kind], dict(step.wanted))
            self._save(step, view["id"], _stored(kind, view))
            return
        object_id = step.object_id or chosen_id(step.key) or new_id()
        # Before the object: an apply that is killed after this finds its own object, not one of somebody else.
        record = _record(self.api.post(RECORDS, self._record_body(step.key, object_id, {}, None)))
        body = api_body(kind, step.wanted, {}, object_id, self._id_of)
        if kind in (ObjectKind.RULE, ObjectKind.SCHEDULE):
            body["benchmarkId"] = self._benchmark_of(step.key)
        try:
            view = self.api.post(self._collection(step.key), {"id": object_id, **body})
        except (Conflict, Invalid, NotFound):
            # Nothing was created: the name is free for others.
            if record.shown is None:
                self.api.delete(f"{RECORDS}{path_of(record.id)}")
            raise
        self._save(replace(step, record=record), object_id, _stored(kind, view))

    def _change(self, step: Step) -> None:
        kind, stored = step.key.kind, step.stored
        assert stored is not None
        names = {change.name for change in step.changes}
        fields = {change.name: change.new for change in step.changes}
        if names & {"langfuseUrl"} and "langfuseSecretKey" in step.wanted:
            # A stored key is never sent to another server: the service asks for it again.
            fields["langfuseSecretKey"] = step.wanted["langfuseSecretKey"]
        current = self.names.in_words_of_file(stored.fields)
        body = api_body(kind, fields, current, stored.id, self._id_of)
        self._forget_hidden(step)
        view = self._patch(step, body)
        self._save(step, stored.id, _stored(kind, view))

    def _forget_hidden(self, step: Step) -> None:
        """Record before a change that its hidden values are not known: if the answer gets lost, the next apply sends
        them again. It could not tell them from the edit of somebody else.
        """
        hidden = {change.name for change in step.changes if change.is_hidden}
        record = step.record
        if not hidden or record is None or record.shown is None:
            return
        wanted, shown = (
            {name: value for name, value in fields.items() if name not in hidden}
            for fields in (record.wanted, record.shown)
        )
        self.api.post(RECORDS, self._record_body(step.key, record.object_id, wanted, shown))

    def _patch(self, step: Step, body: JSON) -> JSON:
        stored = step.stored
        assert stored is not None
        # A KPI gets revisions of its own when the metrics of its benchmark change.
        has_revision = stored.revision is not None and step.key.kind is not ObjectKind.KPI
        etag = f'"{stored.revision}-plan"' if has_revision else None
        return self.api.patch(f"{self._collection(step.key)}{path_of(stored.id)}", body, etag)

    def _prune(self, step: Step) -> None:
        kind, stored, record = step.key.kind, step.stored, step.record
        assert stored is not None
        assert record is not None
        if kind is ObjectKind.KPI:
            path = PATHS[kind].format(benchmark=stored.benchmark_id)
            self.api.delete(f"{path}{path_of(stored.id)}")
            self.api.delete(f"{RECORDS}{path_of(record.id)}")
            return
        off = PRUNED[kind]
        self._patch(step, off)
        body = self._record_body(
            step.key, stored.id, {**record.wanted, **off}, {**(record.shown or {}), **off}
        )
        self.api.post(RECORDS, body)

    def _save(self, step: Step, object_id: str, after: StoredObject) -> None:
        """Record what was applied, and what the service shows of it."""
        self.names.add(step.key, object_id)
        record = step.record or _record(
            self.api.post(RECORDS, self._record_body(step.key, object_id, {}, None))
        )
        shown = compact(self.names.in_words_of_file(after.fields))
        if step.stored is not None and record.shown is not None:
            # An edit of a field that the file does not name is one of somebody else also for the next apply.
            before = compact(self.names.in_words_of_file(step.stored.fields))
            foreign = {
                name: value
                for name, value in record.shown.items()
                if name not in step.wanted and before.get(name) != value
            }
            shown |= foreign
        body = self._record_body(step.key, object_id, seal(step.wanted, record.id), shown)
        self.api.post(RECORDS, body)

    def _record_body(self, key: ObjectKey, object_id: str, wanted: Any, shown: Any) -> JSON:
        path = key.path
        if key.kind is ObjectKind.ENDPOINT:
            path = f"endpoints/{object_id}"
            shown = None if shown is None else {**shown, "name": key.name}
        return {
            "file": self.content.name, "path": path, "kind": key.kind,
            "objectId": object_id, "wanted": wanted, "shown": shown,
        }  # fmt: skip

    def _collection(self, key: ObjectKey) -> str:
        path = PATHS[key.kind]
        return path.format(benchmark=self._benchmark_of(key)) if "{" in path else path

    def _benchmark_of(self, key: ObjectKey) -> str:
        return self.names.ids[ObjectKey(ObjectKind.BENCHMARK, key.benchmark or "")]

    def _id_of(self, kind: ObjectKind, name: str) -> str:
        # A name of the service that is none of the file stays what it is.
        return self.names.ids.get(ObjectKey(kind, name), name)
