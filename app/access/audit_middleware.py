"""What the API key of a request does is recorded without the routes knowing of it."""

from fastapi import Request
from sqlalchemy.orm import Session

from app.access.audit import AuditActor, AuditOutcome, AuditResource, record_action
from app.core.web.request_body import get_body_fields

# Of a request that is refused, nothing was checked but its key. An index holds no long texts.
MAX_CHARS = 200
MAX_FIELDS = 100


def audit_request(request: Request, session: Session, outcome: AuditOutcome = "done") -> None:
    """Record what the API key of a request does in this transaction.

    Requests without an API key are signed otherwise: who accepts them records them.
    """
    caller = getattr(request.state, "caller", None)
    if caller is None or getattr(request.state, "replayed", False):
        return
    record_action(
        session,
        AuditActor(type="key", id=caller.key_id),
        request.scope["endpoint"].__name__,
        _affected_resource(request),
        fields=[name[:MAX_CHARS] for name in get_body_fields(request.scope)[:MAX_FIELDS]],
        outcome=outcome,
        method=request.method,
        path=request.scope["path"][:MAX_CHARS],
    )


def _affected_resource(request: Request) -> AuditResource:
    """What was created, else the last thing that the address names: `/benchmarks/b/kpis/k` is the
    KPI k.
    """
    created: str | None = getattr(request.state, "created", None)
    if created is not None:
        return _resource_at(created)
    steps = request.scope["path"].split("/")
    template = request.scope["route"].path.split("/")
    # From the end: a prefix stands in the address, not in every template.
    named = [at for at in range(-1, -len(template) - 1, -1) if template[at].startswith("{")]
    if not named:
        return AuditResource(steps[-1], None)
    return AuditResource(steps[named[0] - 1], steps[named[0]][:MAX_CHARS])


def _resource_at(address: str) -> AuditResource:
    """Of `/api/v1/benchmarks/b/kpis/k` the KPI k, of `/api/v1/schedule-configs/s/fires` the
    schedule s.
    """
    steps = address.removeprefix("/api/v1/").strip("/").split("/")
    last = len(steps) // 2 * 2
    return AuditResource(*steps[last - 2 : last])
