"""HTTP route of the versions of an agent."""

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Query

from mosaico.access.deps import READ
from mosaico.agents.queries import get_agent
from mosaico.core.web.deps import Res
from mosaico.core.web.routes import Router
from mosaico.overview.agent_versions import DAYS, MAX_DAYS, AgentVersions, read_versions

router = Router(prefix="/agents", tags=["agents"])


@router.get("/{agentId}/versions", dependencies=READ)
def list_agent_versions(
    res: Res,
    agent_id: Annotated[str, Path(alias="agentId")],
    benchmark_id: Annotated[
        str, Query(alias="benchmarkId", description="The benchmark whose runs are read.")
    ],
    days: Annotated[
        int, Query(ge=1, le=MAX_DAYS, description="Length of the period that is read, in days.")
    ] = DAYS,
) -> AgentVersions:
    """List the versions of an agent, the model and the prompt that its traces record, newest first, with the mean of each
    KPI over the runs of a version.
    """
    with res.db.read() as session:
        get_agent(session, agent_id)
        return read_versions(session, agent_id, benchmark_id, res.clock() - timedelta(days=days))
