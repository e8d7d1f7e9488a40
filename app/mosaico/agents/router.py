"""REST endpoints of agents."""

from typing import Annotated

from fastapi import Path, Query, Response

from mosaico.access.deps import ADMIN, READ, RUN
from mosaico.access.idempotency import Idempotent
from mosaico.access.queries import revision_views
from mosaico.agents import queries, service
from mosaico.agents.schemas import AgentBody, AgentCheck, AgentCreate, AgentPatch, AgentView
from mosaico.agents.source_fields import default_source
from mosaico.agents.views import agent_view
from mosaico.core.dependents import Consent
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.resources import Resources
from mosaico.core.revisions import RevisionView
from mosaico.core.schemas import Page
from mosaico.core.web.deps import Res
from mosaico.core.web.etag import IfMatch, IfNoneMatch, RevisionCheck
from mosaico.core.web.query_parameters import Cascade, PageParams
from mosaico.core.web.routes import Router

router = Router(prefix="/agents", tags=["agents"])

AgentId = Annotated[str, Path(alias="agentId")]


@router.post("", status_code=201, response_model=AgentView, dependencies=ADMIN)
def create_agent(body: AgentCreate, res: Res, once: Idempotent) -> Response:
    """Create an agent. The secret key is stored encrypted and never returned."""
    return once(
        body,
        lambda session: body.confirm_created(
            agent_view(service.create_agent(session, body, res.secrets), res)
        ),
        location=lambda agent: f"/api/v1/agents/{agent.id}",
    )


@router.get("", dependencies=READ)
def list_agents(
    res: Res, page: PageParams, archived: Annotated[bool, Query()] = False
) -> Page[AgentView]:
    """List agents, newest first; `archived=true` lists the archived ones."""
    with res.db.read_statement() as session:
        rows = queries.list_agents(session, page, archived=archived)
        return rows.to_page(lambda agent: agent_view(agent, res))


@router.get("/{agentId}", dependencies=READ)
def get_agent(agent_id: AgentId, res: Res, tagged: IfNoneMatch) -> AgentView:
    """Show an agent."""
    with res.db.read_statement() as session:
        return tagged(agent_view(queries.get_agent(session, agent_id), res))


@router.get("/{agentId}/revisions", dependencies=READ)
def list_agent_revisions(agent_id: AgentId, res: Res, page: PageParams) -> Page[RevisionView]:
    """List the edits of an agent with their authors, newest first."""
    with res.db.read() as session:
        queries.get_agent(session, agent_id)
        rows = queries.list_revisions(session, agent_id, page)
        views = revision_views(session, RevisionView, rows.rows)
        return Page(items=views, next_cursor=rows.next_cursor)


@router.patch("/{agentId}", dependencies=ADMIN)
def change_agent(agent_id: AgentId, body: AgentPatch, res: Res, match: IfMatch) -> AgentView:
    """Change the given fields. A new langfuseUrl requires langfuseSecretKey too."""
    return _edit_agent(agent_id, body, res, match)


@router.put("/{agentId}", dependencies=ADMIN)
def replace_agent(agent_id: AgentId, body: AgentBody, res: Res, match: IfMatch) -> AgentView:
    """Replace all fields; an omitted field gets its default, an omitted secret stays."""
    return _edit_agent(agent_id, body, res, match)


@router.post("/{agentId}/check", dependencies=RUN)
def check_agent(agent_id: AgentId, res: Res) -> AgentCheck:
    """Check the agent's credentials for its trace source; the response contains the error, if any."""
    with res.db.read() as session:
        agent = queries.get_agent(session, agent_id)
        kind, query = default_source(agent), service.agent_query(agent, res)
    check, is_refused = service.check_source(kind, query, res)
    if check.ok or is_refused:
        with res.db.begin() as session:
            service.record_credentials_check(session, agent_id, query, res, refused=is_refused)
    return check


@router.delete("/{agentId}", status_code=204, dependencies=ADMIN, responses=CONFLICT)
def delete_agent(agent_id: AgentId, res: Res, match: IfMatch, *, cascade: Cascade = False) -> None:
    """Delete an agent that no run, benchmark or upload refers to; otherwise archive it. Its schedules and
    alert rules are deleted with `cascade` only.
    """
    with res.db.begin() as session:
        match(queries.get_agent(session, agent_id, for_update=True).revision)
        service.delete_agent(session, agent_id, res.clock(), Consent(cascade))


def _edit_agent(agent_id: str, body: AgentBody, res: Resources, match: RevisionCheck) -> AgentView:
    with res.db.begin() as session:
        agent = queries.get_agent(session, agent_id, for_update=True)
        match(agent.revision)
        edit = body.compare_with_view(agent_view(agent, res))
        agent = service.change_agent(session, agent_id, edit, res.secrets, res.clock())
        return match.etag(agent_view(agent, res))
