"""Pages for admins: the people who have logged in, what they changed last, and blocking them."""

from typing import Annotated

from fastapi import Path, Request, Response

from mosaico.access import people, queries
from mosaico.access.deps import ADMIN
from mosaico.access.queries import AuditFilter
from mosaico.core.keyset import PageQuery
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router

router = Router()

NAV = "/people"
STEPS = (Crumb("People", NAV),)
SHOWN_ACTIONS = 20

PersonId = Annotated[str, Path(alias="personId")]


@router.get("/people", dependencies=ADMIN)
def show_people(request: Request, res: Res, query: ListQuery) -> Response:
    """Everybody who has logged in as a person, blocked ones too."""
    with res.db.read() as session:
        page = people.list_people(session, query)
    return render_page(
        request, "people.html", title="People", nav=NAV, api=list_in_api(request, "/people"),
        people=page.items, next_cursor=page.next_cursor, has_login=res.login.is_open,
    )  # fmt: skip


@router.get("/people/{personId}", dependencies=ADMIN)
def show_person(request: Request, person_id: PersonId, res: Res) -> Response:
    """One person with their latest changes."""
    with res.db.read() as session:
        person = people.get_person(session, person_id)
        actions = queries.list_audit_entries(
            session, PageQuery(SHOWN_ACTIONS), AuditFilter(actor_id=person_id)
        )
    return render_page(
        request, "person.html", title=person.name, nav=NAV, api=path_of("people", person_id),
        steps=STEPS, person=person, actions=actions.items,
        audit_url=f"/api/v1{build_url('/audit', actorId=person_id)}",
    )  # fmt: skip


@router.post("/people/{personId}/block", dependencies=ADMIN)
def block_person(person_id: PersonId, res: Res) -> Response:
    """Block a person; their sessions and keys stop working within a second."""
    with res.db.begin() as session:
        people.set_blocked(session, person_id, is_blocked=True, now=res.clock())
    return see_other(path_of("people", person_id))


@router.post("/people/{personId}/unblock", dependencies=ADMIN)
def unblock_person(person_id: PersonId, res: Res) -> Response:
    """Let a person log in again."""
    with res.db.begin() as session:
        people.set_blocked(session, person_id, is_blocked=False, now=res.clock())
    return see_other(path_of("people", person_id))
