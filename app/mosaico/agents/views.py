"""The view of an agent that the API returns and pages show."""

from mosaico.agents.models import Agent
from mosaico.agents.schemas import AgentSourceView, AgentView
from mosaico.agents.source_fields import is_langfuse, shown_source
from mosaico.core.resources import Resources
from mosaico.core.schemas import view_of_row
from mosaico.traces.registry import source_title


def agent_view(agent: Agent, res: Resources) -> AgentView:
    """An agent; without a URL it is read from the server of the service.

    The `langfuse…` fields of an agent of another tool are those of an agent without Langfuse.
    """
    kind = shown_source(agent)
    is_other = not is_langfuse(agent.source_kind)
    project = None if is_other else agent.langfuse_project_name
    public_key = None if is_other else agent.langfuse_public_key
    url = (None if is_other else agent.langfuse_url) or res.options["langfuse_default_url"]
    return view_of_row(
        AgentView,
        agent,
        source=None if kind is None else _source_view(kind, agent),
        langfuse_project_name=project,
        langfuse_url=url,
        langfuse_public_key=public_key,
        secret_set=agent.langfuse_secret_key is not None,
        llangfuse_project_name=project,
        llangfuse_url=url,
        llangfuse_public_key=public_key,
    )


def describe_source(agent: Agent) -> str | None:
    """The tool that holds the traces of an agent, with its project or key; None for an agent without credentials."""
    kind = shown_source(agent)
    if kind is None:
        return None
    part = agent.langfuse_project_name or agent.langfuse_public_key
    title = source_title(kind)
    return f"{title} · {part}" if part else title


def _source_view(kind: str, agent: Agent) -> AgentSourceView:
    return AgentSourceView(
        kind=kind,
        url=agent.langfuse_url,
        project=agent.langfuse_project_name,
        public_key=agent.langfuse_public_key,
        secret_set=agent.langfuse_secret_key is not None,
    )
