"""Creates what a setup describes: agent, benchmark with its KPIs, schedule and alert rules, in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel
from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.agents.schemas import AgentCreate
from mosaico.agents.service import create_agent
from mosaico.alerts.rule_service import create_rule
from mosaico.alerts.schemas import AlertConfigCreate
from mosaico.benchmarks.schemas import BenchmarkCreate
from mosaico.benchmarks.service import create_benchmark
from mosaico.core.encryption import SecretBox
from mosaico.core.errors import ErrorItem, Invalid, NotFound
from mosaico.core.ids import new_id
from mosaico.core.keyset import PageQuery
from mosaico.core.web.forms.sent_fields import check_form, number_or_text
from mosaico.metrics.measures import Measure
from mosaico.metrics.types import Direction
from mosaico.notifications.endpoints import decrypt_recipient
from mosaico.notifications.models import Delivery, Endpoint
from mosaico.notifications.queries import DeliveryFilter, get_endpoints_in_order, list_deliveries
from mosaico.notifications.registry import IN_APP
from mosaico.notifications.rules import DeliveryStatus
from mosaico.overview.models import SetupDraft
from mosaico.overview.setup_fields import LOCAL, Setup
from mosaico.project_file.project_draft import HOURS_WITHOUT_RUN
from mosaico.schedules.schemas import ScheduleCreate
from mosaico.schedules.service import create_schedule

B = TypeVar("B", bound=BaseModel)


class SetupDraftNotFound(NotFound):
    """The draft does not exist: it was finished or deleted; start a new setup."""


class Address(NamedTuple):
    """A recipient of a setup, and the answer to its newest message; None before the first one."""

    endpoint: Endpoint
    last: Delivery | None

    @property
    def works(self) -> bool:
        return self.last is not None and self.last.status == DeliveryStatus.DELIVERED

    @property
    def is_awaited(self) -> bool:
        """Whether the first attempt has no answer yet."""
        return self.last is None or (
            self.last.status == DeliveryStatus.PENDING and self.last.detail is None
        )


class CreatedSetup(NamedTuple):
    schedule_id: str
    benchmark_id: str
    agent_id: str


def get_draft(session: Session, draft_id: str, *, for_update: bool = False) -> SetupDraft:
    draft = session.get(SetupDraft, draft_id, with_for_update=for_update or None)
    return SetupDraftNotFound.unless(draft, "the draft does not exist; start a new setup")


def create_draft(session: Session, fields: Mapping[str, Any]) -> SetupDraft:
    draft = SetupDraft(id=new_id(), fields=dict(fields))
    session.add(draft)
    session.flush()
    return draft


def change_draft(draft: SetupDraft, fields: Mapping[str, Any], now: datetime) -> None:
    draft.fields = {**draft.fields, **fields}
    draft.updated_at = now


def list_addresses(session: Session, endpoint_ids: Sequence[str]) -> list[Address]:
    """The recipients in their order; a deleted one is left out."""
    return [
        Address(endpoint, next(iter(_newest(session, endpoint.id)), None))
        for endpoint in get_endpoints_in_order(session, list(endpoint_ids))
    ]


def _newest(session: Session, endpoint_id: str) -> Sequence[Delivery]:
    return list_deliveries(session, PageQuery(1), DeliveryFilter(endpoint_id=endpoint_id)).rows


def create_all(session: Session, setup: Setup, box: SecretBox, now: datetime) -> CreatedSetup:
    """Create the resources of a setup. Raises: `Invalid`, with each error at its field."""
    decider = setup.decider
    if decider is None:
        raise _at(
            "measure",
            "nothing in the file measures quality; add a column with expected answers or a score",
        )
    agent_id = _agent_of(session, setup, box)
    benchmark = create_benchmark(session, _benchmark(setup, decider, agent_id), now)
    schedule = create_schedule(
        session,
        _checked(
            ScheduleCreate,
            {
                "name": f"{setup.name}, {'nightly' if setup['days'] == '*' else 'on weekdays'}",
                "benchmarkId": benchmark.id, "agentId": agent_id,
                "cronExpression": setup.cron, "timezone": setup["timezone"],
            },
            {"cronExpression": "time"},
        ),
        now,
    )  # fmt: skip
    for rule in _rules(session, setup, decider, benchmark.id, box):
        create_rule(session, rule, box)
    return CreatedSetup(schedule.id, benchmark.id, agent_id)


def _agent_of(session: Session, setup: Setup, box: SecretBox) -> str:
    if setup["agentId"]:
        return get_agent(session, setup["agentId"]).id
    if not setup["agentName"]:
        raise _at("agentName", "choose an agent, or name a new one")
    if setup.source.name != LOCAL:
        raise _at(
            "agentId",
            f"a new agent has no access to {setup.source.text} yet; create it first and choose it here",
        )
    return create_agent(
        session, _checked(AgentCreate, {"name": setup["agentName"]}, {"name": "agentName"}), box
    ).id


def _benchmark(setup: Setup, decider: Measure, agent_id: str) -> BenchmarkCreate:
    measures = [
        _kpi(decider) | {
            "gate": True, "direction": setup.direction,
            "minEffect": _number(setup["minEffect"]), "thresholdMin": _number(setup["neverBelow"]),
        },
        *(_kpi(measure) for measure in setup.others),
    ]  # fmt: skip
    if setup.direction is Direction.LOWER_IS_BETTER:
        measures[0]["thresholdMax"] = measures[0].pop("thresholdMin")
    metrics = []
    for measure in (decider, *setup.others):
        if measure.metric not in metrics:
            metrics.append(_metric(measure, setup))
    document = {
        "metadata": {"name": setup.name},
        "source": setup.source.name,
        "datasetRef": setup["datasetRef"],
        "evaluates": [agent_id],
        "metrics": metrics,
        "measures": measures,
    }
    places = {"measures": "minEffect", "datasetRef": "datasetRef", "metadata": "name"}
    return _checked(BenchmarkCreate, document, places)


def _metric(measure: Measure, setup: Setup) -> Any:
    """The metric with the direction that was chosen, where it is an option of it."""
    if not isinstance(measure.metric, dict) or measure is not setup.decider:
        return measure.metric
    better = "lower" if setup.direction is Direction.LOWER_IS_BETTER else "higher"
    return {**measure.metric, "options": {**measure.metric["options"], "better": better}}


def _kpi(measure: Measure) -> dict[str, Any]:
    return {
        "name": measure.name, "formula": measure.formula, "unit": measure.unit,
        "direction": measure.direction,
    }  # fmt: skip


def _rules(
    session: Session, setup: Setup, decider: Measure, benchmark_id: str, box: SecretBox
) -> list[AlertConfigCreate]:
    """The rules of the chosen kinds, which tell the addresses that work."""
    working = [a.endpoint for a in list_addresses(session, setup["endpoints"]) if a.works]
    recipients = [address.reveal() for e in working if (address := decrypt_recipient(e, box))]
    common = {
        "benchmarkId": benchmark_id,
        "kpi": decider.name,
        "channels": [IN_APP, *dict.fromkeys(endpoint.channel for endpoint in working)],
        "recipients": recipients,
    }
    tell, rules = setup["tell"], []
    if "regressed" in tell or "missing" in tell:
        hours = HOURS_WITHOUT_RUN if "missing" in tell else None
        rules.append(
            {
                "name": f"{decider.name} regressed",
                "condition": "REGRESSED",
                "maxHoursWithoutRun": hours,
            }
        )
    is_lower = setup.direction is Direction.LOWER_IS_BETTER
    if "below" in tell and setup["neverBelow"]:
        rules.append(
            {
                "name": f"{decider.name} {'above' if is_lower else 'below'} {setup['neverBelow']}",
                "condition": "GREATER_THAN" if is_lower else "LESS_THAN",
                "threshold": _number(setup["neverBelow"]),
            }
        )
    return [
        _checked(AlertConfigCreate, {**common, **rule}, {"threshold": "neverBelow"})
        for rule in rules
    ]


def _number(typed: str) -> Any:
    return number_or_text(typed.strip()) if typed.strip() else None


def _checked(schema: type[B], document: Mapping[str, Any], places: Mapping[str, str]) -> B:
    """The body of a resource; its errors at the fields of the setup that they come from."""
    checked = check_form(schema, dict(document))
    if checked.body is not None:
        return checked.body
    raise Invalid(
        "nothing was created; correct the marked fields",
        errors=[
            ErrorItem(pointer=places.get(name.split(".")[0], name), detail=detail)
            for name, detail in checked.errors.items()
        ],
    )


def _at(field: str, detail: str) -> Invalid:
    return Invalid(
        "nothing was created; correct the marked fields",
        errors=[ErrorItem(pointer=field, detail=detail)],
    )
