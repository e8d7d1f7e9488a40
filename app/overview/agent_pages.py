"""Pages of agents: the list, and one agent with its verdicts by benchmark. The forms of agents are
in `app.agents.pages`, which does not import runs.
"""

from typing import Annotated

from fastapi import Path, Query, Request, Response

from app.access.deps import READ, RUN
from app.agents import queries
from app.agents import router as agents_api
from app.agents.pages import NAV, STEPS
from app.agents.schemas import AgentCheck
from app.agents.views import agent_view
from app.core.resources import Resources
from app.core.web.deps import Res
from app.core.web.page_paths import path_of
from app.core.web.pages import list_in_api, render_page
from app.core.web.query_parameters import ListQuery
from app.core.web.routes import Router
from app.overview.pages import VERDICTS, read_grid_cells

router = Router()


AgentId = Annotated[str, Path(alias="agentId")]


@router.get("/agents", dependencies=READ)
def show_agents(
    request: Request,
    res: Res,
    query: ListQuery,
    *,
    archived: Annotated[bool, Query()] = False,
) -> Response:
    """The agents with their last verdict on each benchmark."""
    with res.db.read() as session:
        page = queries.list_agents(session, query, archived=archived)
        cells = read_grid_cells(session, res.clock())
    return render_page(
        request,
        "agents.html",
        title="Agents",
        nav=NAV,
        api=list_in_api(request, "/agents", {"archived": "archived"}),
        api_parts=VERDICTS,
        agents=page.rows,
        cells=cells,
        archived=archived,
        next_cursor=page.next_cursor,
    )


@router.get("/agents/{agentId}", dependencies=READ)
def show_agent(request: Request, agent_id: AgentId, res: Res) -> Response:
    """Show one agent: its trace source, the state of its credentials, and its verdicts."""
    return _render_agent(request, agent_id, res)


@router.post("/agents/{agentId}/check", dependencies=RUN)
def check_agent(request: Request, agent_id: AgentId, res: Res) -> Response:
    """Check the agent's Langfuse credentials and show what is wrong."""
    return _render_agent(request, agent_id, res, agents_api.check_agent(agent_id, res))


def _render_agent(
    request: Request, agent_id: str, res: Resources, check: AgentCheck | None = None
) -> Response:
    with res.db.read() as session:
        agent = queries.get_agent(session, agent_id)
        cells = read_grid_cells(session, res.clock(), agent_id=agent_id)
        view = agent_view(agent, res)
    return render_page(
        request,
        "agent.html",
        title=agent.name,
        nav=NAV,
        api=path_of("agents", agent_id),
        api_parts=VERDICTS,
        steps=STEPS,
        agent=view,
        cells=cells,
        check=check,
    )
