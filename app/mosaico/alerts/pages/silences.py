"""Forms of silences: start one for alerts that are chosen by rule, benchmark, agent, severity and name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import Path, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import RUN, get_caller
from mosaico.agents.queries import list_agent_names
from mosaico.alerts import queries, silence_queries, silences
from mosaico.alerts.models import AlertSilence
from mosaico.alerts.schemas import SilenceCreate, SilencePatch, SilenceView
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.benchmarks.queries import list_benchmark_names
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.fields import Choices
from mosaico.core.web.forms.form_page import (
    FormPage,
    require_revision,
    revision_of,
    show_form,
    submit_form,
)
from mosaico.core.web.forms.local_times import read_instant
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, see_other
from mosaico.core.web.routes import Router

router = Router()

NAV: Final = "/inbox"
SILENCES: Final = "/inbox?tab=silenced&ended=false"
TEMPLATE: Final = "silence_form.html"
STEPS: Final = (Crumb("Inbox", NAV), Crumb("Silences", SILENCES))
_INPUTS: Final[Mapping[str, FieldInput]] = MappingProxyType(
    {
        "matchers": FieldInput("Alerts", "The silence applies to alerts that match every field below."),
        "matchers.alertConfigId": FieldInput("Rule"),
        "matchers.benchmarkId": FieldInput("Benchmark"),
        "matchers.agentId": FieldInput("Agent"),
        "matchers.name": FieldInput("Name of the rule", "Pattern: nightly-* matches every name that starts with nightly-."),
        "endsAt": FieldInput("Ends at", "Keep the silence short: a silence also hides real regressions."),
        "startsAt": FieldInput("Starts at", "Leave empty to start now."),
        "comment": FieldInput(help="Reason for the silence, shown to other users."),
    }
)  # fmt: skip
FORM: Final = SchemaForm(
    create=SilenceCreate, main=("matchers", "endsAt", "comment"), inputs=_INPUTS
)
EDIT_FORM: Final = SchemaForm(
    create=SilencePatch, patch=SilencePatch, main=FORM.main, inputs=_INPUTS
)

SilenceId = Annotated[str, Path(alias="silenceId")]


@router.get("/new/silence", dependencies=RUN)
def show_new_silence(request: Request, res: Res) -> Response:
    """The form of a new silence."""
    return show_form(request, _new_page(res))


@router.post("/silences", dependencies=RUN)
def create_silence(request: Request, form: SentForm, res: Res) -> Response:
    """Create a silence and show the active ones."""

    def save(body: SilenceCreate) -> str:
        with res.db.begin() as session:
            silence = silences.create_silence(
                session, body, get_caller(request).key_id, res.clock()
            )
            request.state.created = f"/api/v1/silences{path_of(silence.id)}"
        return SILENCES

    return submit_form(request, form, lambda: _new_page(res), save)


@router.get("/silences/{silenceId}/edit", dependencies=RUN)
def show_silence_form(request: Request, silence_id: SilenceId, res: Res) -> Response:
    """The form of a silence."""
    return show_form(request, _edit_page(silence_id, res))


@router.post("/silences/{silenceId}", dependencies=RUN)
def change_silence(request: Request, silence_id: SilenceId, form: SentForm, res: Res) -> Response:
    """Change a silence and show the active ones."""

    def save(body: SilencePatch) -> str:
        # The form shows every matcher: an empty one is cleared.
        matchers = SilenceMatchers.model_validate(body.matchers.model_dump())
        with res.db.begin() as session:
            stored = silence_queries.get_silence(session, silence_id, for_update=True)
            require_revision(form, revision_of(_values(stored)))
            changed = body.model_copy(update={"matchers": matchers})
            silences.update_silence(session, silence_id, changed, res.clock())
        return SILENCES

    return submit_form(request, form, lambda: _edit_page(silence_id, res), save)


@router.post("/silences/{silenceId}/end", dependencies=RUN)
def delete_silence(silence_id: SilenceId, res: Res) -> Response:
    """End a silence now."""
    with res.db.begin() as session:
        silences.delete_silence(session, silence_id)
    return see_other(SILENCES)


def _new_page(res: Resources) -> FormPage:
    with res.db.read() as session:
        choices = _choices(session)
    return FormPage(
        form=FORM, title="New silence", nav=NAV, steps=STEPS, action="/silences", back=SILENCES,
        submit="Silence", choices=choices,
        template=TEMPLATE, preview=_preview, preview_at="endsAt",
    )  # fmt: skip


def _edit_page(silence_id: str, res: Resources) -> FormPage:
    with res.db.read() as session:
        silence = silence_queries.get_silence(session, silence_id)
        values = _values(silence)
        choices = _choices(session)
    return FormPage(
        form=EDIT_FORM, title="Edit silence", nav=NAV, steps=STEPS,
        action=path_of("silences", silence_id), back=SILENCES, values=values, choices=choices,
        revision=revision_of(values),
        template=TEMPLATE, preview=_preview, preview_at="endsAt",
    )  # fmt: skip


def _preview(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The typed instants: the page shows them in the zone of the reader and in UTC."""
    return {
        "starts_at": read_instant(typed.get("startsAt")),
        "ends_at": read_instant(typed.get("endsAt")),
    }


def _values(silence: AlertSilence) -> dict[str, Any]:
    return SilenceView.model_validate(silence).model_dump(mode="json")


def _choices(session: Session) -> dict[str, Choices]:
    anything = ("", "any")
    return {
        "matchers.alertConfigId": queries.list_rule_names(session).choices(anything),
        "matchers.benchmarkId": list_benchmark_names(session).choices(anything),
        "matchers.agentId": list_agent_names(session).choices(anything),
        "matchers.severity": [anything, *((name, name.lower()) for name in ("INFO", "WARNING", "CRITICAL"))],
    }  # fmt: skip
