"""The page of the audit log: who did what, and whose request was refused."""

from typing import Annotated

from fastapi import Depends, Request, Response

from app.access import queries
from app.access.deps import ADMIN
from app.access.queries import AuditFilter
from app.core.web.deps import Res
from app.core.web.forms.page_filters import PageFilters, SentFilters
from app.core.web.pages import list_in_api, render_page
from app.core.web.query_parameters import ListQuery
from app.core.web.routes import Router

router = Router()


AuditFilters = Annotated[
    SentFilters[AuditFilter], Depends(PageFilters(AuditFilter, "actor action outcome from to"))
]


@router.get("/audit", dependencies=ADMIN)
def show_audit_log(request: Request, res: Res, query: ListQuery, filters: AuditFilters) -> Response:
    """The entries, newest first."""
    with res.db.read() as session:
        page = queries.list_audit_entries(session, query, filters.of_list)
        actors = queries.list_key_names(session)
    return render_page(
        request, "audit.html", title="Audit log", nav="/audit",
        api=list_in_api(request, "/audit", **filters.in_api), filters=filters.fields,
        entries=page.items, actors=actors, names={"actor": actors.choices()},
        next_cursor=page.next_cursor,
    )  # fmt: skip
