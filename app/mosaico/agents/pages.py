"""Forms of agents: register, edit and delete one."""

from typing import Annotated, Any

from fastapi import Path, Request, Response

from mosaico.access.deps import ADMIN
from mosaico.agents import queries, service
from mosaico.agents.models import Agent
from mosaico.agents.schemas import AgentCreate, AgentPatch
from mosaico.agents.source_fields import is_langfuse
from mosaico.agents.views import agent_view
from mosaico.core.dependents import Consent
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.cascade import delete_with_dependents
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

router = Router()

NAV = "/agents"
STEPS = (Crumb("Agents", NAV),)

FORM = SchemaForm(
    create=AgentCreate,
    patch=AgentPatch,
    # With credentials of any tool: a request of the API, or a file of the command line.
    hidden=frozenset({"source"}),
    main=("name", "description", "owners", "langfuseProjectName", "langfuseUrl", "langfusePublicKey", "langfuseSecretKey", "otelServiceName"),
    inputs={
        "name": FieldInput(help="Name shown in reports and messages."),
        "owners": FieldInput(help="Addresses of the people whose agent it is, one on each line."),
        "langfuseProjectName": FieldInput(
            "Langfuse project", "Langfuse project that holds the traces of the agent."
        ),
        "langfuseUrl": FieldInput(
            "Langfuse URL", "Leave empty to use the server in the service settings."
        ),
        "otelServiceName": FieldInput(
            "OpenTelemetry service", (
                "service.name of the agent's spans. Leave empty to read the spans of every "
                "service."
            )
        ),
        "langfusePublicKey": FieldInput("Langfuse public key", "The key starts with pk-lf-."),
        "langfuseSecretKey": FieldInput(
            "Langfuse secret key",
            (
                "Stored encrypted and never shown. Leave empty to keep the stored key. A new URL "
                "requires the key again."
            ),
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
        submit="Register",
    )  # fmt: skip


def _edit_page(agent_id: str, res: Resources) -> FormPage:
    with res.db.read() as session:
        agent = queries.get_agent(session, agent_id)
        values = _values(agent, res)
    address = path_of("agents", agent_id)
    return FormPage(
        form=FORM, title=f"Edit {agent.name}", nav=NAV, steps=(*STEPS, Crumb(agent.name, address)),
        action=address, back=address, values=values, revision=agent.revision,
    )  # fmt: skip


def _values(agent: Agent, res: Resources) -> dict[str, Any]:
    """The stored fields: the view of the API shows the default URL in place of a missing one."""
    view = agent_view(agent, res).model_dump(mode="json")
    return {**view, "langfuseUrl": agent.langfuse_url if is_langfuse(agent.source_kind) else None}
