"""Forms of agents: register, edit and delete one."""

from typing import Annotated

from fastapi import Path, Request, Response

from mosaico.access.deps import ADMIN
from mosaico.agents import queries, service
from mosaico.agents.schemas import AgentCreate, AgentPatch
from mosaico.agents.views import agent_view
from mosaico.core.dependents import Consent
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.cascade import delete_with_dependents
from mosaico.core.web.forms.fields import Choices
from mosaico.core.web.forms.form_page import (
    FormPage,
    require_revision,
    show_form,
    submit_form,
)
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb
from mosaico.core.web.routes import Router
from mosaico.traces.registry import list_tools, source_title

router = Router()

NAV = "/agents"
STEPS = (Crumb("Agents", NAV),)

FORM = SchemaForm(
    create=AgentCreate,
    patch=AgentPatch,
    # `source` is the same for any tool.
    hidden=frozenset({"langfuseProjectName", "langfuseUrl", "langfusePublicKey", "langfuseSecretKey"}),
    main=("name", "description", "owners", "source", "otelServiceName"),
    inputs={
        "name": FieldInput(help="Name shown in reports and messages."),
        "owners": FieldInput(help="Addresses of the people whose agent it is, one on each line."),
        "source": FieldInput("Trace source", "The tool that holds the traces of the agent; nothing for uploads, spans and harnesses."),
        "source.kind": FieldInput("Tool", "Langfuse, or a tool whose source is a plugin."),
        "source.url": FieldInput("URL", "Leave empty for the Langfuse server in the service settings."),
        "source.project": FieldInput("Project", "Project that holds the traces of the agent."),
        "source.publicKey": FieldInput("Public key", "Key of Langfuse that starts with pk-lf-, or the user name of another tool."),
        "source.secretKey": FieldInput(
            "Secret key", "Stored encrypted and never shown. Leave empty to keep the stored key. A new tool or URL requires the key again."
        ),
        "otelServiceName": FieldInput(
            "OpenTelemetry service", (
                "service.name of the agent's spans. Leave empty to read the spans of every "
                "service."
            )
        ),
        "archived": FieldInput(help="Hide the agent from lists; its runs stay."),
        "id": FieldInput(help="Letters, digits and hyphens; leave empty to generate an ID."),
    },
)  # fmt: skip

AgentId = Annotated[str, Path(alias="agentId")]


@router.get("/new/agent", dependencies=ADMIN)
def show_new_agent(request: Request) -> Response:
    """The form of a new agent."""
    return show_form(request, _new_page())


@router.post("/agents", dependencies=ADMIN)
def create_agent(request: Request, form: SentForm, res: Res) -> Response:
    """Register an agent and show it."""

    def save(body: AgentCreate) -> str:
        with res.db.begin() as session:
            agent = service.create_agent(session, body, res.secrets)
            request.state.created = address = path_of("agents", agent.id)
        return address

    return submit_form(request, form, _new_page, save)


@router.get("/agents/{agentId}/edit", dependencies=ADMIN)
def show_agent_form(request: Request, agent_id: AgentId, res: Res) -> Response:
    """The form of an agent."""
    return show_form(request, _edit_page(agent_id, res))


@router.post("/agents/{agentId}", dependencies=ADMIN)
def change_agent(request: Request, agent_id: AgentId, form: SentForm, res: Res) -> Response:
    """Change an agent and show it."""

    def save(body: AgentPatch) -> str:
        with res.db.begin() as session:
            require_revision(form, queries.get_agent(session, agent_id, for_update=True).revision)
            service.change_agent(session, agent_id, body, res.secrets, res.clock())
        return path_of("agents", agent_id)

    return submit_form(request, form, lambda: _edit_page(agent_id, res), save)


@router.post("/agents/{agentId}/delete", dependencies=ADMIN)
def delete_agent(request: Request, agent_id: AgentId, form: SentForm, res: Res) -> Response:
    """Delete an agent without runs, benchmarks and uploads; asks before its schedules and alert rules go too."""

    def delete(consent: Consent) -> str:
        with res.db.begin() as session:
            service.delete_agent(session, agent_id, res.clock(), consent)
        return NAV

    return delete_with_dependents(request, form, delete, back=path_of("agents", agent_id))


def _new_page() -> FormPage:
    return FormPage(
        form=FORM, title="Register an agent", nav=NAV, steps=STEPS, action=NAV, back=NAV,
        submit="Register", choices=_choices(None),
    )  # fmt: skip


def _edit_page(agent_id: str, res: Resources) -> FormPage:
    with res.db.read() as session:
        agent = queries.get_agent(session, agent_id)
        values = agent_view(agent, res).model_dump(mode="json")
    address = path_of("agents", agent_id)
    return FormPage(
        form=FORM, title=f"Edit {agent.name}", nav=NAV, steps=(*STEPS, Crumb(agent.name, address)),
        action=address, back=address, values=values, revision=agent.revision, choices=_choices(agent.source_kind),
    )  # fmt: skip


def _choices(kind: str | None) -> dict[str, Choices]:
    """The tools whose credentials an agent can have, and the one that it has."""
    tools = list_tools()
    if kind is not None:
        tools[kind] = source_title(kind)
    return {"source.kind": list(tools.items())}
