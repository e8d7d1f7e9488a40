"""Forms of alert rules: create and edit one, with a backtest of what is typed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN
from mosaico.agents.queries import list_agent_names
from mosaico.alerts import queries
from mosaico.alerts.backtest_schemas import BacktestRequest
from mosaico.alerts.pages.backtest import (
    COMPARED,
    CONDITIONS,
    BacktestOutcome,
    compare_backtests,
    draft_rule,
    try_backtest,
)
from mosaico.alerts.pages.rule_text import watched_name
from mosaico.alerts.pages.rules import RuleId
from mosaico.alerts.pages.value_chart import draw_backtest
from mosaico.alerts.rule_service import create_rule, update_rule
from mosaico.alerts.rules import Condition
from mosaico.alerts.schemas import AlertConfigCreate, AlertConfigPatch, AlertConfigView
from mosaico.alerts.views import rule_view
from mosaico.benchmarks.queries import get_kpis, list_benchmark_names
from mosaico.core.defaults import BACKTEST_DAYS, BASELINE_RUNS
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.fields import Choices
from mosaico.core.web.forms.form_page import FormPage, require_revision, show_form, submit_form
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import FormFields, SentForm
from mosaico.core.web.page_paths import rule_page_path
from mosaico.core.web.pages import Crumb, reader_zone
from mosaico.core.web.routes import Router
from mosaico.notifications.registry import CHANNELS, IN_APP
from mosaico.run_store.run_history import list_agents_with_runs

router = Router()

NAV = "/alerts"
STEPS = (Crumb("Alert rules", NAV),)

FORM = SchemaForm(
    create=AlertConfigCreate,
    patch=AlertConfigPatch,
    main=("name", "benchmarkId", "agentId", "kpi", "metric", "condition", "threshold", "severity",
          "channels", "recipients"),
    inputs={
        "name": FieldInput(help="Name shown in messages."),
        "benchmarkId": FieldInput("Benchmark"),
        "agentId": FieldInput("Agent", "Select none to evaluate every agent separately."),
        "kpi": FieldInput("KPI", "KPI that the rule watches. To watch a metric, leave it empty."),
        "metric": FieldInput(help="Metric, or statistic of a metric such as ROUGE.p95, to watch instead of a KPI."),
        "condition": FieldInput(help="The fields below are those that the condition takes."),
        "forRuns": FieldInput("Runs until it fires"),
        "keepFiringForRuns": FieldInput("Healthy runs before it resolves"),
        "cooldownMinutes": FieldInput("Cooldown, minutes"),
        "noData": FieldInput("A run without a value"),
        "baselineRuns": FieldInput("Runs to compare with"),
        "minimumEffect": FieldInput("Smallest change that fires"),
        "falsePagesPerMonth": FieldInput("Maximum false alarms in 30 runs"),
        "maxHoursWithoutRun": FieldInput("Hours without a run"),
        "enabled": FieldInput(help="A disabled rule does not evaluate runs."),
        "recipients": FieldInput(help="One address per line. Each channel notifies the addresses that it accepts."),
        "id": FieldInput(help="Letters, digits and hyphens; leave empty to generate an ID."),
    },
)  # fmt: skip


_VALUE_CONDITIONS = (
    Condition.LESS_THAN,
    Condition.GREATER_THAN,
    Condition.EQUALS,
    Condition.NOT_EQUALS,
)


def unused_fields(condition: Condition) -> dict[str, Any]:
    """The fields that a condition does not read, each with its value in a rule of this condition."""
    is_regressed = condition is Condition.REGRESSED
    is_percentage = condition in (Condition.PERCENTAGE_DROP, Condition.PERCENTAGE_RISE)
    return {
        **({"threshold": None, "forRuns": 1} if is_regressed else {"falsePagesPerMonth": None}),
        **({} if is_percentage else {"baselineRuns": BASELINE_RUNS}),
        **({"minimumEffect": None} if condition in _VALUE_CONDITIONS else {}),
    }


@router.get("/new/alert-rule", dependencies=ADMIN)
def show_new_rule(
    request: Request, res: Res, benchmark: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """The form of a new rule."""
    return show_form(request, _form_page(request, None, res, benchmark))


@router.post("/alerts", dependencies=ADMIN)
def create_alert_config(request: Request, form: SentForm, res: Res) -> Response:
    """Create a rule and show it."""

    def save(body: AlertConfigCreate) -> str:
        with res.db.begin() as session:
            rule = create_rule(session, body, res.secrets)
            request.state.created = f"/api/v1/alert-configs/{rule.id}"
            return rule_page_path(rule.id)

    def load() -> FormPage:
        return _form_page(request, None, res, form.text("benchmarkId"), form)

    return submit_form(request, _with_new_fields(form), load, save)


@router.get("/alerts/{ruleId}/edit", dependencies=ADMIN)
def show_rule_form(request: Request, rule_id: RuleId, res: Res) -> Response:
    """The form of a rule."""
    return show_form(request, _form_page(request, rule_id, res))


@router.post("/alerts/{ruleId}", dependencies=ADMIN)
def change_alert_config(request: Request, rule_id: RuleId, form: SentForm, res: Res) -> Response:
    """Save a new revision of a rule and show it."""

    def save(body: AlertConfigPatch) -> str:
        with res.db.begin() as session:
            rule = queries.get_rule(session, rule_id, for_update=True)
            require_revision(form, rule.revision)
            # The form has no field for what the condition does not read: the stored value would be refused.
            unused = unused_fields(Condition(body.condition or rule.condition))
            sent = body.model_dump(mode="json", by_alias=True, exclude_unset=True)
            patch = AlertConfigPatch.model_validate({**sent, **unused})
            update_rule(session, rule_id, patch, res.secrets, res.clock())
        return rule_page_path(rule_id)

    return submit_form(
        request, _with_new_fields(form), lambda: _form_page(request, rule_id, res, "", form), save
    )


def _with_new_fields(form: FormFields) -> FormFields:
    """The fields of a form. Those that the condition before did not take have the values of a new rule."""
    new = {"forRuns": ["1"], "baselineRuns": [str(BASELINE_RUNS)]}
    return FormFields({**new, **form})


def _form_page(
    request: Request,
    rule_id: str | None,
    res: Resources,
    benchmark_id: str = "",
    submitted: FormFields | None = None,
) -> FormPage:
    """The form of a rule, or of a new one about a benchmark. `submitted` names the rule to compare with."""
    choice = {name: submitted.text(name) if submitted else "" for name in COMPARED}
    with res.db.read() as session:
        view = None
        if rule_id is not None:
            view = rule_view(session, queries.get_rule(session, rule_id), res)
        choices = _choices(session, view.benchmark_id if view else benchmark_id)
    address = rule_page_path(view.id) if view else NAV
    values = (
        view.model_dump(mode="json")
        if view
        else {
            "benchmarkId": benchmark_id,
            "kpi": next((id_ for id_, _ in choices["kpi"] if id_), ""),
            "condition": "REGRESSED",
        }
    )
    unused = unused_fields(_condition_of(submitted, values["condition"]))
    return FormPage(
        form=replace(FORM, hidden=frozenset(unused)),
        title=f"Edit {view.name}" if view else "New alert rule",
        nav=NAV,
        steps=(*STEPS, Crumb(view.name, address)) if view else STEPS,
        action=address,
        back=address,
        submit=f"Save as revision {view.revision + 1}" if view else "Create the rule",
        values={**values, **unused},
        choices=choices,
        revision=view.revision if view else None,
        template="rule_form.html",
        preview=lambda typed: _preview(request, res, typed, view, choice),
        preview_at="condition",
        is_choice_first=True,
    )


def _condition_of(submitted: FormFields | None, stored: str) -> Condition:
    """The condition that was chosen; the stored one if none was, or none that exists."""
    chosen = submitted.text("condition") if submitted else ""
    return Condition(chosen if chosen in Condition.__members__ else stored)


def _choices(session: Session, benchmark_id: str) -> dict[str, Choices]:
    kpis = get_kpis(session, benchmark_id)
    return {
        "benchmarkId": list_benchmark_names(session).choices(),
        "agentId": list_agent_names(session).choices(("", "every agent")),
        "kpi": [("", "none"), *((kpi.id, kpi.name) for kpi in kpis)],
        "channels": [
            (IN_APP, "inbox"),
            *((name, name.lower()) for name in sorted(CHANNELS.names())),
        ],
    }


def _preview(
    request: Request,
    res: Resources,
    typed: Mapping[str, Any],
    stored: AlertConfigView | None,
    choice: Mapping[str, str],
) -> dict[str, Any]:
    """The backtest of the typed rule for its agent; of a rule for every agent, for the first one."""
    preview: dict[str, Any] = {
        "days": BACKTEST_DAYS, "conditions": CONDITIONS, "choice": choice, "compared": [],
        "outcome": BacktestOutcome(), "backtest_chart": None,
    }  # fmt: skip
    rule = draft_rule(typed)
    if rule is None:
        return preview
    with res.db.read() as session:
        agent_ids = [rule.agent_id or "", *list_agents_with_runs(session, rule.benchmark_id)]
        name = watched_name(session, rule)
    agent_id = next(filter(None, agent_ids), None)
    outcome = try_backtest(res, BacktestRequest(rule=rule, agent_id=agent_id, days=BACKTEST_DAYS))
    if outcome.backtest:
        preview["backtest_chart"] = draw_backtest(rule, outcome.backtest, reader_zone(request))
        preview["compared"] = compare_backtests(
            res, rule, stored, choice, name=name, agent_id=agent_id, days=BACKTEST_DAYS
        )
    return {**preview, "outcome": outcome}
