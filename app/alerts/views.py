"""The view of an alert rule that the API returns and pages show."""

from collections.abc import Iterable, Mapping

from sqlalchemy.orm import Session

from app.alerts import queries
from app.alerts.models import AlertRule
from app.alerts.queries import AcknowledgedCount
from app.alerts.schemas import AlertConfigView, AlertPrecisionView
from app.core.schemas import view_of_row
from app.notifications.models import Endpoint
from app.notifications.queries import get_endpoints_by_id

# A rule is proposed for review below this precision, once this many alerts were acknowledged.
REVIEW_PRECISION = 0.5
MIN_ACKNOWLEDGED = 5


def rule_views(session: Session, rules: Iterable[AlertRule]) -> list[AlertConfigView]:
    """Rules with their states, redacted recipients and the precision of their alerts."""
    rules = list(rules)
    rule_ids = [rule.id for rule in rules]
    states = queries.states_by_rule(session, rule_ids)
    counts = queries.count_acknowledged(session, rule_ids)
    endpoint_ids = {endpoint_id for rule in rules for endpoint_id in rule.endpoints}
    endpoints = get_endpoints_by_id(session, endpoint_ids)
    return [
        view_of_row(
            AlertConfigView,
            rule,
            recipients=_recipients(rule, endpoints),
            states=states[rule.id],
            precision=_precision(counts.get(rule.id, AcknowledgedCount())),
        )
        for rule in rules
    ]


def _recipients(rule: AlertRule, endpoints: Mapping[str, Endpoint]) -> list[str]:
    """The recipients of a rule, redacted."""
    recipients = [endpoints[id_].recipient for id_ in rule.endpoints if id_ in endpoints]
    return list(dict.fromkeys(recipients))


def _precision(count: AcknowledgedCount) -> AlertPrecisionView:
    acknowledged = count.true + count.noise
    precision = count.true / acknowledged if acknowledged else None
    return AlertPrecisionView(
        true=count.true,
        noise=count.noise,
        precision=precision,
        review=precision is not None
        and acknowledged >= MIN_ACKNOWLEDGED
        and precision < REVIEW_PRECISION,
    )
