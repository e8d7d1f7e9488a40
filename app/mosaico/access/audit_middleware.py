"""Audit of requests: records the action of an API key without any code in the routes."""

from collections.abc import Sequence

from fastapi import Request
from sqlalchemy.orm import Session

from mosaico.access.audit import AuditActor, AuditOutcome, AuditResource, record_action
from mosaico.core.web.request_body import get_body_fields

# A refused request was checked for its key only, so that its texts may have any length; Postgres
# cannot index long texts.
MAX_CHARS = 200
MAX_FIELDS = 100

# Pages whose address names another collection than the API does.
PAGE_COLLECTIONS = {
    "runs": "benchmark-runs",
    "schedules": "schedule-configs",
    "datasets": "local-datasets",
}


def audit_request(request: Request, session: Session, outcome: AuditOutcome = "done") -> None:
    """Record the action of the request's API key in this transaction.

    Requests without an API key (signed webhooks) are recorded where they are accepted. A replayed
    response changes nothing and is not recorded.
    """
    caller = getattr(request.state, "caller", None)
    if caller is None or getattr(request.state, "replayed", False):
        return
    for resource in _affected_resources(request):
        record_action(
            session,
            AuditActor(type=caller.type, id=caller.key_id),
            request.scope["endpoint"].__name__,
            resource,
            # Names only, never values: they may be secrets.
            fields=[name[:MAX_CHARS] for name in get_body_fields(request.scope)[:MAX_FIELDS]],
            outcome=outcome,
            method=request.method,
            path=request.scope["path"][:MAX_CHARS],
        )


def _affected_resources(request: Request) -> list[AuditResource]:
    """The created resource, those that a form names, or the last one in the path: `/benchmarks/b/kpis/k` is the KPI k."""
    created: str | None = getattr(request.state, "created", None)
    if created is not None:
        return [_resource_at(created)]
    changed: Sequence[str] = getattr(request.state, "changed", ())
    return [_resource_at(address) for address in changed] or [_resource_in_path(request)]


def _resource_in_path(request: Request) -> AuditResource:
    steps = request.scope["path"].split("/")
    template = request.scope["route"].path.split("/")
    # Counted from the end, because the path has a prefix that not every template has.
    parameters = [
        position
        for position in range(-1, -len(template) - 1, -1)
        if template[position].startswith("{")
    ]
    if not parameters:
        return AuditResource(_collection(steps[-1]), None)
    collection = _collection(steps[parameters[0] - 1])
    return AuditResource(collection, steps[parameters[0]][:MAX_CHARS])


def _collection(segment: str) -> str:
    return PAGE_COLLECTIONS.get(segment, segment)


def _resource_at(address: str) -> AuditResource:
    """The resource of a path: the KPI k for `/api/v1/benchmarks/b/kpis/k`, the schedule s for
    `/api/v1/schedule-configs/s/fires`.
    """
    steps = address.removeprefix("/api/v1/").strip("/").split("/")
    last = len(steps) // 2 * 2
    return AuditResource(*steps[last - 2 : last])
