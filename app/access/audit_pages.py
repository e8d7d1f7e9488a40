"""The page of the audit log: who did what, and whose request was refused."""

from typing import Annotated

from fastapi import Query, Request, Response

from app.access import queries
from app.access.audit import AuditOutcome
from app.access.deps import ADMIN
from app.access.queries import AuditFilter
from app.core.keyset import MAX_LIMIT, PageQuery
from app.core.web.deps import Res
from app.core.web.pages import list_in_api, render_page
from app.core.web.query_parameters import ListQuery
from app.core.web.routes import Router

router = Router()


Filter = Annotated[str, Query(max_length=200)]


@router.get("/audit", dependencies=ADMIN)
def show_audit_log(
    request: Request,
    res: Res,
    query: ListQuery,
    *,
    actor: Filter = "",
    action: Filter = "",
    outcome: Annotated[AuditOutcome | None, Query()] = None,
) -> Response:
    """The entries, newest first."""
    filters = AuditFilter(
        actor_id=actor or None, action=action.strip() or None, outcome=outcome or None
    )
    with res.db.read() as session:
        page = queries.list_audit_entries(session, query, filters)
        keys = queries.list_keys(session, PageQuery(MAX_LIMIT)).items
    return render_page(
        request, "audit.html", title="Audit log", nav="/audit",
        api=list_in_api(
            request, "/audit", {"actor": "actorId", "action": "action", "outcome": "outcome"}
        ),
        entries=page.items, actors=[(key.id, key.name) for key in keys],
        is_filtered=filters != AuditFilter(),
        next_cursor=page.next_cursor,
    )  # fmt: skip
