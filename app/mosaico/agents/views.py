"""The view of an agent that the API returns and pages show."""

from mosaico.agents.models import Agent
from mosaico.agents.schemas import AgentView
from mosaico.core.resources import Resources
from mosaico.core.schemas import view_of_row


def agent_view(agent: Agent, res: Resources) -> AgentView:
    """An agent; without a URL it is read from the server of the service."""
    url = agent.langfuse_url or res.options["langfuse_default_url"]
    return view_of_row(
        AgentView,
        agent,
        langfuse_url=url,
        secret_set=agent.langfuse_secret_key is not None,
        llangfuse_project_name=agent.langfuse_project_name,
        llangfuse_url=url,
        llangfuse_public_key=agent.langfuse_public_key,
    )
