"""`mosaico alerts why`: what became of a page about a run, for every rule of its benchmark."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from mosaico.alerts.page_reasons import (
    ADVICE,
    PageOutcome,
    PageReason,
    SentAlert,
    reason_of,
    reason_of_unjudged,
)
from mosaico.alerts.rules import RuleOutcome
from mosaico.core.console.resource_arguments import id_argument
from mosaico.core.console.service import open_api
from mosaico.core.console.table import JSON, Column, field, print_link, print_table, tabulate
from mosaico.core.console.terminal import (
    Format,
    OutputFormat,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.web.page_paths import path_of, run_page_path
from mosaico.run_store.rules import RunStatus, Validity

if TYPE_CHECKING:
    from mosaico.core.console.api_client import ApiClient

RUNS = "/benchmark-runs"
COLUMNS = (
    field("name", "alert rule"),
    field("reason"),
    field("advice"),
    field("explanation"),
    Column("recipients", lambda rule: [*map(_describe_recipient, rule["recipients"])]),
)
DELIVERY_COLUMNS = (field("channel"), field("recipient"), field("status"), field("detail"))


def why(
    *,
    run: Annotated[str, id_argument("run", RUNS)],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show for each alert rule of its benchmark why it paged about a run, or why not.

    Recipients are those of that night. The run may be `latest`. The log of the worker has the same reasons, in lines
    with the run ID.
    """
    with open_api() as api:
        stored_run = api.get(f"{RUNS}{path_of(run)}")
        alerts = list(api.items("/alerts", runId=stored_run["id"]))
        deliveries = list(_deliveries_of(api, alerts))
        rules = list(_rules_of(api, stored_run, alerts, deliveries))
        address = f"{api.pages_url}{run_page_path(stored_run['id'])}"
    finding = _describe(stored_run, rules)
    if output is OutputFormat.JSON:
        print_json(
            {
                "runId": stored_run["id"],
                "finding": finding,
                "rules": rules,
                "deliveries": deliveries,
            }
        )
        return
    print_status(finding)
    if rules:
        print_table(tabulate(rules, COLUMNS))
    if deliveries:
        print_result("")
        print_table(tabulate(deliveries, DELIVERY_COLUMNS))
    print_link(address, output)


def _deliveries_of(api: "ApiClient", alerts: list[JSON]) -> Iterator[JSON]:
    """The deliveries of all messages about the run, each once."""
    messages = {alert["notificationId"] for alert in alerts}
    messages |= {
        recipient["notificationId"] for alert in alerts for recipient in _recipients_of(alert)
    }
    for message in sorted(messages - {None}):
        yield from api.items("/deliveries", notificationId=message)


def _rules_of(
    api: "ApiClient", run: JSON, alerts: list[JSON], deliveries: list[JSON]
) -> Iterator[JSON]:
    """What became of a page of each rule: of those that judged the run first, then of the others."""
    judged = {
        each["alertConfigId"]: each for each in api.get(f"{RUNS}/{run['id']}/evaluations")["items"]
    }
    for rule_id, evaluation in judged.items():
        own = [alert for alert in alerts if alert["alertConfigId"] == rule_id]
        sent = [
            SentAlert(
                alert["silenceId"] is not None,
                alert["notificationId"] is not None,
                _messages_of(alert, deliveries),
            )
            for alert in own
        ]
        reason = reason_of(RuleOutcome(evaluation["result"]), sent)
        yield _row(rule_id, evaluation["name"], reason, evaluation["explanation"], own)
    if not _is_judged(run):
        return
    for rule in api.items("/alert-configs", benchmarkId=run["benchmarkId"]):
        if rule["id"] not in judged:
            reason = reason_of_unjudged(
                is_enabled=rule["enabled"],
                watches_agent=rule["agentId"] in (None, run["agentId"]),
                is_older_than_run=datetime.fromisoformat(rule["createdAt"])
                < datetime.fromisoformat(run["completedAt"]),
            )
            yield _row(rule["id"], rule["name"], reason, "", [])


def _recipients_of(alert: JSON) -> list[JSON]:
    """Whom the rule named when it made the alert; empty for an alert of a version that did not store them."""
    return alert["details"].get("recipients") or []


def _messages_of(alert: JSON, deliveries: list[JSON]) -> list[str | None]:
    """The message to each recipient of an alert, None where none was sent."""
    if alert["details"].get("recipients") is not None:
        return [recipient["notificationId"] for recipient in _recipients_of(alert)]
    sent = (delivery["notificationId"] for delivery in deliveries)
    return [message for message in sent if message == alert["notificationId"]]


def _row(rule_id: str, name: str, reason: PageReason, explanation: str, alerts: list[JSON]) -> JSON:
    recipients = {
        recipient["endpointId"]: recipient
        for alert in alerts
        for recipient in _recipients_of(alert)
    }
    return {
        "alertConfigId": rule_id,
        "name": name,
        "reason": reason,
        "recipients": list(recipients.values()),
        "advice": ADVICE[reason],
        "explanation": explanation,
        "alerts": [
            {name: alert[name] for name in ("id", "state", "silenceId", "notificationId")}
            for alert in alerts
        ],
    }


def _describe_recipient(recipient: JSON) -> str:
    return f"{recipient['channel']} {recipient['recipient']}"


def _is_judged(run: JSON) -> bool:
    return bool(run["status"] == RunStatus.COMPLETED and run["validity"] == Validity.VALID)


def _describe(run: JSON, rules: list[JSON]) -> str:
    """The answer for the run as a whole, in a sentence."""
    if run["status"] != RunStatus.COMPLETED:
        return f"the run is {run['status']}: alert rules judge completed runs only"
    if run["validity"] != Validity.VALID:
        return "the run is not valid: no alert rule judges it; its recipients got a notice of that"
    if not rules:
        return "no alert rule watches this benchmark; `mosaico alerts rules create` makes one"
    paged = sum(rule["reason"] == PageOutcome.PAGED for rule in rules)
    return f"{paged} of {len(rules)} alert rules paged about this run"
