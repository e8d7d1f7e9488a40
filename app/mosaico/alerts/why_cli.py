"""`mosaico alerts why`: what became of a page about a run, for every rule of its benchmark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from mosaico.alerts.page_reasons import (
    ADVICE,
    PageReason,
    SentAlert,
    reason_of,
    reason_of_unjudged,
)
from mosaico.alerts.rules import Judgement
from mosaico.core.console.resource import id_argument
from mosaico.core.console.service import open_api
from mosaico.core.console.table import JSON, field, print_link, print_table, tabulate
from mosaico.core.console.terminal import (
    Format,
    OutputFormat,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.web.page_paths import run_page_path
from mosaico.run_store.rules import RunStatus, Validity

if TYPE_CHECKING:
    from mosaico.core.console.api_client import ApiClient

RUNS = "/benchmark-runs"
COLUMNS = (field("name", "alert rule"), field("reason"), field("advice"), field("explanation"))
DELIVERY_COLUMNS = (field("channel"), field("recipient"), field("status"), field("detail"))


def why(
    *,
    run: Annotated[str, id_argument("run", RUNS)],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show for each alert rule of its benchmark why it paged about a run, or why not.

    The run may be `latest`. The log of the worker has the same reasons, in lines with the run ID.
    """
    with open_api() as api:
        stored_run = api.get(f"{RUNS}/{api.full_id(RUNS, run)}")
        rules = list(_rules_of(api, stored_run))
        deliveries = [row for rule in rules for row in _deliveries_of(api, rule["alerts"])]
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


def _rules_of(api: "ApiClient", run: JSON) -> Iterator[JSON]:
    """What became of a page of each rule: of those that judged the run first, then of the others."""
    judged = {
        each["alertConfigId"]: each for each in api.get(f"{RUNS}/{run['id']}/evaluations")["items"]
    }
    existing = {
        rule["id"]: rule for rule in api.items("/alert-configs", benchmarkId=run["benchmarkId"])
    }
    alerts = list(api.items("/alerts", runId=run["id"]))
    for rule_id, evaluation in judged.items():
        own = [alert for alert in alerts if alert["alertConfigId"] == rule_id]
        sent = [
            SentAlert(alert["silenceId"] is not None, alert["notificationId"] is not None)
            for alert in own
        ]
        reason = reason_of(
            Judgement(evaluation["result"]),
            sent,
            has_recipients=_had_recipients(api, existing.get(rule_id), own),
        )
        yield _row(rule_id, evaluation["name"], reason, evaluation["explanation"], own)
    for rule_id, rule in existing.items():
        if rule_id not in judged and _is_judged(run):
            reason = reason_of_unjudged(
                is_enabled=rule["enabled"],
                watches_agent=rule["agentId"] in (None, run["agentId"]),
            )
            yield _row(rule_id, rule["name"], reason, "", [])


def _had_recipients(api: "ApiClient", rule: JSON | None, alerts: list[JSON]) -> bool:
    """Whether a rule names recipients, or named them when it made these alerts."""
    # Of a deleted rule nobody knows the recipients; one that was edited since may have sent a message before.
    return rule is None or bool(rule["recipients"]) or any(_deliveries_of(api, alerts))


def _row(rule_id: str, name: str, reason: PageReason, explanation: str, alerts: list[JSON]) -> JSON:
    return {
        "alertConfigId": rule_id,
        "name": name,
        "reason": reason,
        "advice": ADVICE[reason],
        "explanation": explanation,
        "alerts": [
            {name: alert[name] for name in ("id", "state", "silenceId", "notificationId")}
            for alert in alerts
        ],
    }


def _deliveries_of(api: "ApiClient", alerts: list[JSON]) -> Iterator[JSON]:
    messages = {alert["notificationId"] for alert in alerts if alert["notificationId"]}
    for message in sorted(messages):
        yield from api.items("/deliveries", notificationId=message)


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
    paged = sum(rule["reason"] == PageReason.PAGED for rule in rules)
    return f"{paged} of {len(rules)} alert rules paged about this run"
