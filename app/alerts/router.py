from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from app.access.deps import caller_of, require
from app.access.idempotency import Once
from app.alerts import queries, rule_tests, service
from app.alerts.alert_rules import change_config, create_config, delete_config
from app.alerts.models import AlertConfig, AlertEvent
from app.alerts.queries import Precision, Told
from app.alerts.schemas import (
    Acknowledgement,
    AlertConfigBody,
    AlertConfigCreate,
    AlertConfigPatch,
    AlertConfigView,
    AlertView,
    BacktestRequest,
    BacktestView,
    ContributingTrace,
    EventState,
    PrecisionView,
    SilenceCreate,
    SilenceView,
    StandingView,
    TrialView,
)
from app.core.pagination import Paging
from app.core.problems import PROBLEMS
from app.core.resources import Resources
from app.core.schemas import Page, all_fields, changed_fields
from app.core.web.deps import Res
from app.core.web.etag import IfMatch, IfNoneMatch, Match
from app.notifications.models import Endpoint
from app.notifications.queries import get_endpoints_by_id

configs = APIRouter(prefix="/alert-configs", tags=["alerts"], responses=PROBLEMS)
alerts = APIRouter(prefix="/alerts", tags=["alerts"], responses=PROBLEMS)
silences = APIRouter(prefix="/silences", tags=["alerts"], responses=PROBLEMS)

ConfigId = Annotated[str, Path(alias="alertConfigId")]
AlertId = Annotated[str, Path(alias="alertId")]
SilenceId = Annotated[str, Path(alias="silenceId")]
BenchmarkFilter = Annotated[str | None, Query(alias="benchmarkId")]
AgentFilter = Annotated[str | None, Query(alias="agentId")]

# Fewer acknowledged alerts say little about a rule.
ENOUGH = 5
HALF = 0.5


@configs.post(
    "", status_code=201, response_model=AlertConfigView, dependencies=[Depends(require("admin"))]
)
def create_alert_config(body: AlertConfigCreate, once: Once, res: Res) -> Response:
    """Add a rule: it judges every run that ends from now on."""
    return once(
        body,
        lambda session: _view(session, create_config(session, body, res.secrets)),
    )


@configs.get("", dependencies=[Depends(require("read"))])
def list_alert_configs(
    res: Res,
    page: Paging,
    benchmark_id: BenchmarkFilter = None,
    agent_id: AgentFilter = None,
    enabled: Annotated[bool | None, Query()] = None,
) -> Page[AlertConfigView]:
    """The rules, newest first, with where they stand."""
    with res.db.read() as session:
        rows = queries.list_configs(
            session, page, benchmark_id=benchmark_id, agent_id=agent_id, enabled=enabled
        )
        return Page(items=_views(session, rows.rows), next_cursor=rows.next_cursor)


@configs.post("/backtest", dependencies=[Depends(require("read"))])
def backtest_alert_config(body: BacktestRequest, res: Res) -> BacktestView:
    """Replay a rule over stored history: what it would have told, and how often for nothing."""
    now = res.clock()
    with res.db.read() as session:
        history = rule_tests.backtest_history(session, body, now)
    return history.backtest(rule_tests.since(body, now))


@configs.get("/{alertConfigId}", dependencies=[Depends(require("read"))])
def get_alert_config(config_id: ConfigId, res: Res, tagged: IfNoneMatch) -> AlertConfigView:
    with res.db.read() as session:
        return tagged(_view(session, queries.get_config(session, config_id)))


@configs.patch("/{alertConfigId}", dependencies=[Depends(require("admin"))])
def change_alert_config(
    config_id: ConfigId, body: AlertConfigPatch, res: Res, match: IfMatch
) -> AlertConfigView:
    """Change the fields that are sent. A rule that asks something else starts anew."""
    return _edited(config_id, changed_fields(body), res, match)


@configs.put("/{alertConfigId}", dependencies=[Depends(require("admin"))])
def replace_alert_config(
    config_id: ConfigId, body: AlertConfigBody, res: Res, match: IfMatch
) -> AlertConfigView:
    """Write every field; what is left out takes its default."""
    return _edited(config_id, all_fields(body), res, match)


@configs.delete("/{alertConfigId}", status_code=204, dependencies=[Depends(require("admin"))])
def delete_alert_config(config_id: ConfigId, res: Res, match: IfMatch) -> None:
    """Delete a rule; what fires is resolved, and its alerts stay."""
    with res.db.begin() as session:
        match(queries.get_config(session, config_id, for_update=True).revision)
        delete_config(session, config_id, res.clock())


@configs.post("/{alertConfigId}/test", dependencies=[Depends(require("run"))])
def test_alert_config(config_id: ConfigId, res: Res) -> TrialView:
    """What a rule says about the newest runs, and a message to its recipients for a trial."""
    with res.db.read() as session:
        histories = rule_tests.newest_histories(session, queries.get_config(session, config_id))
    assessments = rule_tests.assess_newest(histories)
    with res.db.begin() as session:
        return rule_tests.send_trial(session, queries.get_config(session, config_id), assessments)


@alerts.get("", dependencies=[Depends(require("read"))])
def list_alerts(
    res: Res,
    page: Paging,
    benchmark_id: BenchmarkFilter = None,
    agent_id: AgentFilter = None,
    run_id: Annotated[str | None, Query(alias="runId")] = None,
    alert_config_id: Annotated[str | None, Query(alias="alertConfigId")] = None,
    state: Annotated[EventState | None, Query()] = None,
) -> Page[AlertView]:
    """What was told, newest first."""
    told = Told(benchmark_id, agent_id, run_id, alert_config_id, state)
    with res.db.read() as session:
        rows = queries.list_events(session, page, told)
        items = [event_view(event) for event in rows.rows]
        return Page(items=items, next_cursor=rows.next_cursor)


@alerts.get("/{alertId}", dependencies=[Depends(require("read"))])
def get_alert(alert_id: AlertId, res: Res) -> AlertView:
    with res.db.read() as session:
        return event_view(queries.get_event(session, alert_id))


@alerts.post("/{alertId}/ack", dependencies=[Depends(require("run"))])
def acknowledge_alert(
    alert_id: AlertId, body: Acknowledgement, request: Request, res: Res
) -> AlertView:
    """Say whether an alert was right. True ones are kept out of what counts as normal."""
    by = caller_of(request).key_id
    with res.db.begin() as session:
        return event_view(service.acknowledge(session, alert_id, body.verdict, by, res.clock()))


@silences.post(
    "", status_code=201, response_model=SilenceView, dependencies=[Depends(require("run"))]
)
def create_silence(body: SilenceCreate, once: Once, res: Res) -> Response:
    """Tell nobody of some alerts for a while; they are still judged and recorded."""
    return once(
        body,
        lambda session: SilenceView.model_validate(
            service.create_silence(session, body, res.clock())
        ),
    )


@silences.get("", dependencies=[Depends(require("read"))])
def list_silences(
    res: Res,
    page: Paging,
    active: Annotated[bool, Query(description="Only those that hold now.")] = False,
) -> Page[SilenceView]:
    """The silences, newest first."""
    with res.db.read() as session:
        rows = queries.list_silences(session, page, active_at=res.clock() if active else None)
        items = [SilenceView.model_validate(silence) for silence in rows.rows]
        return Page(items=items, next_cursor=rows.next_cursor)


@silences.get("/{silenceId}", dependencies=[Depends(require("read"))])
def get_silence(silence_id: SilenceId, res: Res) -> SilenceView:
    with res.db.read() as session:
        return SilenceView.model_validate(queries.get_silence(session, silence_id))


@silences.delete("/{silenceId}", status_code=204, dependencies=[Depends(require("run"))])
def delete_silence(silence_id: SilenceId, res: Res) -> None:
    """End a silence now."""
    with res.db.begin() as session:
        service.delete_silence(session, silence_id)


def event_view(event: AlertEvent) -> AlertView:
    return AlertView(
        id=event.id,
        state=EventState(event.state),
        alert_config_id=event.config_id,
        name=event.name,
        severity=event.severity,
        benchmark_id=event.benchmark_id,
        agent_id=event.agent_id,
        run_id=event.run_id,
        run_url=f"/api/v1/benchmark-runs/{event.run_id}" if event.run_id else None,
        episode=event.episode,
        value=event.value,
        baseline=event.baseline,
        explanation=event.explanation,
        details=event.details,
        contributing_traces=[ContributingTrace.model_validate(trace) for trace in event.traces],
        silence_id=event.silence_id,
        notification_id=event.notification_id,
        verdict=event.verdict,
        acknowledged_at=event.acknowledged_at,
        acknowledged_by=event.acknowledged_by,
        created_at=event.created_at,
    )


def _edited(
    config_id: str, values: Mapping[str, Any], res: Resources, match: Match
) -> AlertConfigView:
    with res.db.begin() as session:
        match(queries.get_config(session, config_id, for_update=True).revision)
        config = change_config(session, config_id, values, res.secrets, res.clock())
        return match.tagged(_view(session, config))


def _view(session: Session, config: AlertConfig) -> AlertConfigView:
    [view] = _views(session, [config])
    return view


def _views(session: Session, rows: Iterable[AlertConfig]) -> list[AlertConfigView]:
    found = list(rows)
    ids = [config.id for config in found]
    standings = queries.standings_of(session, ids)
    precisions = queries.precision_of(session, ids)
    named = get_endpoints_by_id(session, {each for config in found for each in config.endpoints})
    own = AlertConfigView.model_fields.keys() - {"recipients", "states", "precision"}
    return [
        AlertConfigView(
            **{name: getattr(config, name) for name in own},
            recipients=_shown(config, named),
            states=[StandingView.model_validate(each) for each in standings[config.id]],
            precision=_precision(precisions.get(config.id, Precision())),
        )
        for config in found
    ]


def _shown(config: AlertConfig, named: Mapping[str, Endpoint]) -> list[str]:
    """The recipients of a rule, as they may be shown."""
    return list(dict.fromkeys(named[each].recipient for each in config.endpoints if each in named))


def _precision(counted: Precision) -> PrecisionView:
    known = counted.true + counted.noise
    share = counted.true / known if known else None
    return PrecisionView(
        true=counted.true,
        noise=counted.noise,
        precision=share,
        review=share is not None and known >= ENOUGH and share < HALF,
    )
