"""What the API key of a request does is recorded without the routes knowing of it."""

from fastapi import Request
from sqlalchemy.orm import Session

from app.access.audit import Actor, Outcome, Resource, record
from app.core.web.request_body import body_fields

# Of a request that is refused, nothing was checked but its key. An index holds no long texts.
MOST_CHARACTERS = 200
MOST_FIELDS = 100


def witness(request: Request, session: Session, outcome: Outcome = "done") -> None:
    """Record what the API key of a request does in this transaction.

    Requests without an API key are signed otherwise: who accepts them records them.
    """
    caller = getattr(request.state, "caller", None)
    if caller is None or getattr(request.state, "replayed", False):
        return
    record(
        session,
        Actor(type="key", id=caller.key_id),
        request.scope["endpoint"].__name__,
        _resource_of(request),
        fields=[name[:MOST_CHARACTERS] for name in body_fields(request.scope)[:MOST_FIELDS]],
        outcome=outcome,
        method=request.method,
        path=request.scope["path"][:MOST_CHARACTERS],
    )


def _resource_of(request: Request) -> Resource:
    """What was created, else the last thing that the address names: `/benchmarks/b/kpis/k` is the
    KPI k.
    """
    created: str | None = getattr(request.state, "created", None)
    if created is not None:
        return _last_member(created)
    steps = request.scope["path"].split("/")
    template = request.scope["route"].path.split("/")
    # From the end: a prefix stands in the address, not in every template.
    named = [at for at in range(-1, -len(template) - 1, -1) if template[at].startswith("{")]
    if not named:
        return Resource(steps[-1], None)
    return Resource(steps[named[0] - 1], steps[named[0]][:MOST_CHARACTERS])


def _last_member(address: str) -> Resource:
    """Of `/api/v1/benchmarks/b/kpis/k` the KPI k, of `/api/v1/schedule-configs/s/fires` the
    schedule s.
    """
    steps = address.removeprefix("/api/v1/").strip("/").split("/")
    last = len(steps) // 2 * 2
    return Resource(*steps[last - 2 : last])
