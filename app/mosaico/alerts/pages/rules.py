"""Pages of alert rules: the list, and one rule with its states, its incidents and a backtest."""

from collections import Counter
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN, get_caller
from mosaico.access.queries import revision_views
from mosaico.agents.queries import list_agent_names
from mosaico.alerts import event_queries, inbox_view, incident_queries, queries, rule_tests
from mosaico.alerts.backtest_schemas import BacktestRequest
from mosaico.alerts.evaluation.run_evaluation import read_false_pages
from mosaico.alerts.event_queries import AlertFilter
from mosaico.alerts.incident_queries import IncidentFilter
from mosaico.alerts.models import AlertEvent, AlertRuleRevision, Incident
from mosaico.alerts.pages.backtest import (
    COMPARED,
    CONDITIONS,
    BacktestOutcome,
    compare_backtests,
    draft_rule,
    try_backtest,
)
from mosaico.alerts.pages.inbox import SILENCE_HOURS, silence_hours, silence_row
from mosaico.alerts.pages.incidents import incident_row
from mosaico.alerts.pages.rule_text import describe_condition, watched_name
from mosaico.alerts.pages.value_chart import draw_backtest
from mosaico.alerts.publishing import benchmark_name
from mosaico.alerts.queries import RuleFilter
from mosaico.alerts.rule_records import read_false_alarms
from mosaico.alerts.rule_service import delete_rule, update_rule
from mosaico.alerts.schemas import AlertConfigPatch, AlertConfigView
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.alerts.silences import start_silence
from mosaico.alerts.views import rule_view, rule_views
from mosaico.benchmarks.queries import list_owner_names
from mosaico.core.defaults import BACKTEST_DAYS
from mosaico.core.keyset import PageQuery, find_whole_list
from mosaico.core.revisions import RevisionView
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import alert_page_path, path_of, rule_page_path
from mosaico.core.web.pages import (
    ComputedRequest,
    Crumb,
    build_url,
    list_in_api,
    reader_zone,
    render_page,
    see_other,
)
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.revision_pages import render_revisions
from mosaico.core.web.routes import Router

router = Router()

SHOWN_EVENTS = 10

RuleFilters = Annotated[
    SentFilters[RuleFilter], Depends(PageFilters(RuleFilter, "agent benchmark enabled"))
]
RuleId = Annotated[str, Path(alias="ruleId")]


@router.get("/alerts", dependencies=READ)
def show_rules(
    request: Request,
    res: Res,
    query: ListQuery,
    filters: RuleFilters,
) -> Response:
    """Alert rules with their states, newest first."""
    with res.db.read() as session:
        page = queries.list_rules(session, query, filters.of_list)
        rows = [_row(session, view) for view in rule_views(session, page.rows, res)]
        names = list_owner_names(session)
    return render_page(
        request,
        "rules.html",
        title="Alert rules",
        nav="/alerts",
        api=list_in_api(request, "/alert-configs", **filters.in_api),
        filters=filters.fields,
        names=names,
        rows=rows,
        next_cursor=page.next_cursor,
    )


@router.get("/alerts/{ruleId}", dependencies=READ)
def show_rule(
    request: Request,
    rule_id: RuleId,
    res: Res,
    agent: Annotated[str, Query(max_length=200)] = "",
    days: Annotated[int, Query(ge=0, le=3660)] = 0,
    compare_condition: Annotated[str, Query(alias=COMPARED[0], max_length=50)] = "",
    compare_threshold: Annotated[str, Query(alias=COMPARED[1], max_length=50)] = "",
) -> Response:
    """Show one alert rule; with `days`, also its backtest, if requested beside another
    condition.
    """
    now = res.clock()
    with res.db.read() as session:
        view = rule_view(session, queries.get_rule(session, rule_id), res)
        false_alarms = read_false_alarms(session, [rule_id], now, read_false_pages(res.options))[
            rule_id
        ]
        row = _row(session, view)
        newest = PageQuery(SHOWN_EVENTS)
        revisions = queries.list_revisions(session, rule_id, newest)
        revised = revision_views(session, RevisionView, revisions.rows)
        agents = list_agent_names(session)
        incidents = incident_queries.list_incidents(
            session, newest, IncidentFilter(rule_ids=[rule_id])
        )
        incident_rows = [incident_row(session, incident) for incident in incidents.rows]
        alerts = event_queries.list_events(session, newest, AlertFilter(rule_ids=[rule_id]))
        all_incidents, all_alerts, all_revisions = (
            find_whole_list(session, rows, address, column, rule_id)
            for rows, address, column in (
                (incidents, build_url("/incidents", rule=rule_id), Incident.rule_id),
                (alerts, build_url("/alert-history", rule=rule_id), AlertEvent.rule_id),
                (revisions, f"{rule_page_path(rule_id)}/revisions", AlertRuleRevision.rule_id),
            )
        )
        state_total = queries.count_states(session, rule_id, len(view.states))
        silences = [
            silence_row(session, silence)
            for silence in inbox_view.list_silences_of_rule(session, view, now)
        ]
    outcome, compared, question = BacktestOutcome(), [], None
    choice = dict(zip(COMPARED, (compare_condition, compare_threshold), strict=True))
    if days:
        request_body = BacktestRequest(alert_config_id=rule_id, agent_id=agent or None, days=days)
        outcome = try_backtest(res, request_body)
        if outcome.backtest:
            body = request_body.model_dump(mode="json", by_alias=True, exclude_none=True)
            question = ComputedRequest("/alert-configs/backtest", body)
        if draft := draft_rule(view.model_dump(mode="json", by_alias=True)):
            compared = compare_backtests(
                res, draft, None, choice, name=row["watched"], agent_id=agent or None, days=days
            )
    return render_page(
        request,
        "rule.html",
        title=view.name,
        nav="/alerts",
        api=f"/alert-configs{path_of(rule_id)}",
        api_parts={
            kind: build_url(f"/{kind}", alertConfigId=rule_id, limit=SHOWN_EVENTS)
            for kind in ("alerts", "incidents")
        }
        | {
            "revisions": build_url(
                f"/alert-configs{path_of(rule_id)}/revisions", limit=SHOWN_EVENTS
            )
        },
        api_question=question,
        steps=[Crumb("Alert rules", "/alerts")],
        rule=view,
        revisions=revised,
        all_revisions=all_revisions,
        state_total=state_total,
        row=row,
        false_alarms=false_alarms,
        agents=agents,
        incidents=incident_rows,
        alerts=[{"event": event, "url": alert_page_path(event.id)} for event in alerts.rows],
        all_incidents=all_incidents,
        all_alerts=all_alerts,
        silences=silences,
        hours=SILENCE_HOURS,
        days=days or BACKTEST_DAYS,
        agent=agent,
        outcome=outcome,
        compared=compared,
        conditions=CONDITIONS,
        choice=choice,
        backtest_chart=outcome.backtest
        and draw_backtest(view, outcome.backtest, reader_zone(request)),
    )


@router.get("/alerts/{ruleId}/revisions", dependencies=READ)
def show_rule_revisions(request: Request, rule_id: RuleId, res: Res, query: ListQuery) -> Response:
    """The edits of an alert rule, newest first."""
    with res.db.read() as session:
        name = queries.get_rule(session, rule_id).name
        page = queries.list_revisions(session, rule_id, query)
        revised = revision_views(session, RevisionView, page.rows)
    steps = [Crumb("Alert rules", "/alerts"), Crumb(name, rule_page_path(rule_id))]
    api = f"/alert-configs{path_of(rule_id)}"
    return render_revisions(request, steps, page.with_rows(revised), api=api)


@router.post("/alerts/{ruleId}/test", dependencies=RUN)
def test_alert_config(rule_id: RuleId, res: Res) -> Response:
    """Send a test message to the recipients of a rule, and show it in the inbox."""
    rule_tests.try_rule(rule_id, res)
    return see_other("/inbox")


@router.post("/alerts/{ruleId}/silence", dependencies=RUN)
def silence_rule(request: Request, rule_id: RuleId, form: SentForm, res: Res) -> Response:
    """Silence every alert of a rule for some hours."""
    hours, by = silence_hours(form), get_caller(request).key_id
    with res.db.begin() as session:
        queries.get_rule(session, rule_id)
        matchers = SilenceMatchers(alert_config_id=rule_id)
        start_silence(session, matchers, hours, "silenced from the rule", by, res.clock())
    return to_rule(rule_id)


@router.post("/alerts/{ruleId}/enabled", dependencies=ADMIN)
def switch_rule(rule_id: RuleId, form: SentForm, res: Res) -> Response:
    """Enable or disable a rule."""
    patch = AlertConfigPatch.model_validate({"enabled": form.text("enabled") == "true"})
    with res.db.begin() as session:
        update_rule(session, rule_id, patch, res.secrets, res.clock())
    return to_rule(rule_id)


@router.post("/alerts/{ruleId}/delete", dependencies=ADMIN)
def delete_alert_config(rule_id: RuleId, res: Res) -> Response:
    """Delete a rule; its alerts stay."""
    with res.db.begin() as session:
        delete_rule(session, rule_id, res.clock())
    return see_other("/alerts")


def to_rule(rule_id: str) -> Response:
    return see_other(rule_page_path(rule_id))


def _row(session: Session, rule: AlertConfigView) -> dict[str, Any]:
    """A rule with what it watches in words, and how many agents are in which state."""
    name = watched_name(session, rule)
    return {
        "rule": rule,
        "url": rule_page_path(rule.id),
        "watched": name,
        "condition": describe_condition(name, rule),
        "benchmark": benchmark_name(session, rule.benchmark_id),
        "states": Counter(state.state.value for state in rule.states).most_common(),
    }
