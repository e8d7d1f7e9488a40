"""A service in memory with the part of the API that `mosaico apply` uses."""

from collections.abc import Iterator
from typing import Any

from mosaico.core.errors import Conflict, Unavailable
from mosaico.core.ids import new_id
from mosaico.project_file.kinds import ObjectKind
from mosaico.project_file.vocabulary import default_of, editable_fields

JSON = dict[str, Any]
_KINDS = {
    "endpoints": ObjectKind.ENDPOINT,
    "agents": ObjectKind.AGENT,
    "benchmarks": ObjectKind.BENCHMARK,
    "kpis": ObjectKind.KPI,
    "alert-configs": ObjectKind.RULE,
    "schedule-configs": ObjectKind.SCHEDULE,
}
_RENAMED = {"agents": "evaluates", "agent": "agentId"}


class ServiceModel:
    """The collections of a service; from the request number `fails_at` on, every write fails.

    A failure `after` its effect is an answer that got lost.
    """

    def __init__(self) -> None:
        self.collections: dict[str, dict[str, JSON]] = {name: {} for name in _KINDS}
        self.records: dict[str, JSON] = {}
        self.writes = 0
        self.fails_at: int | None = None
        self.fails_after = False

    def items(self, path: str, **parameters: Any) -> Iterator[JSON]:
        name = path.strip("/")
        if name == "project-objects":
            yield from list(self.records.values())
            return
        for view in list(self.collections[name].values()):
            if view.get("archived", False) == parameters.get(
                "archived", view.get("archived", False)
            ):
                measures = [
                    k for k in self.collections["kpis"].values() if k["benchmarkId"] == view["id"]
                ]
                yield {**view, **({"measures": measures} if name == "benchmarks" else {})}

    def post(self, path: str, body: JSON) -> JSON:
        answer: JSON = self._write(lambda: self._post(path.strip("/").split("/"), body))
        return answer

    def patch(self, path: str, body: JSON, etag: str | None = None) -> JSON:
        answer: JSON = self._write(lambda: self._patch(path.strip("/").split("/"), body, etag))
        return answer

    def delete(self, path: str) -> None:
        self._write(lambda: self._delete(path.strip("/").split("/")))

    def _write(self, perform: Any) -> Any:
        self.writes += 1
        is_lost = self.fails_at is not None and self.writes >= self.fails_at
        if is_lost and not self.fails_after:
            raise Unavailable
        answer = perform()
        if is_lost:
            raise Unavailable
        return answer

    def _post(self, steps: list[str], body: JSON) -> JSON:
        if steps == ["project-objects"]:
            return self._save_record(body)
        collection = self.collections[steps[-1]]
        kind = _KINDS[steps[-1]]
        if kind is ObjectKind.ENDPOINT:
            same = [
                view
                for view in collection.values()
                if (view["channel"], view["recipient"]) == (body["channel"], body["recipient"])
            ]
            body = {"id": same[0]["id"] if same else new_id(), **body}
        elif body["id"] in collection:
            raise Conflict
        names = [_RENAMED.get(name, name) for name in editable_fields(kind)]
        fields = {_RENAMED.get(n, n): default_of(kind, n) for n in editable_fields(kind)}
        view = {**fields, **body, "revision": 1}
        if len(steps) == 3:
            view["benchmarkId"] = steps[1]
        assert not body.keys() - {*names, "id", "name", "benchmarkId"}
        collection[view["id"]] = self._shown(kind, view)
        return collection[view["id"]]

    def _patch(self, steps: list[str], body: JSON, etag: str | None) -> JSON:
        kind, view = _KINDS[steps[-2]], self.collections[steps[-2]][steps[-1]]
        assert etag is None or etag.startswith(f'"{view["revision"]}-')
        changed = {**view, **body, "revision": view["revision"] + 1}
        self.collections[steps[-2]][steps[-1]] = self._shown(kind, changed)
        return self.collections[steps[-2]][steps[-1]]

    def _shown(self, kind: ObjectKind, view: JSON) -> JSON:
        shown = dict(view)
        # A change without the key keeps it.
        if kind is ObjectKind.AGENT and "langfuseSecretKey" in shown:
            shown["secretSet"] = shown.pop("langfuseSecretKey") is not None
        if kind is ObjectKind.RULE and shown["kpi"]:
            ids = [
                kpi["id"]
                for kpi in self.collections["kpis"].values()
                if kpi["benchmarkId"] == shown["benchmarkId"]
                and shown["kpi"] in (kpi["id"], kpi["name"])
            ]
            [shown["kpi"]] = ids
        return shown

    def _save_record(self, body: JSON) -> JSON:
        for record in self.records.values():
            if (record["kind"], record["objectId"]) == (body["kind"], body["objectId"]):
                record.update(body)
                return record
            if (record["file"], record["path"]) == (body["file"], body["path"]):
                raise Conflict
        record = {"id": new_id(), **body}
        self.records[record["id"]] = record
        return record

    def _delete(self, steps: list[str]) -> None:
        collection = self.records if steps[0] == "project-objects" else self.collections[steps[-2]]
        del collection[steps[-1]]
