"""Chat URLs are credentials: they are stored encrypted and shown redacted."""

import base64
import json
from urllib.parse import quote

import pytest
from fastapi.responses import Response
from sqlalchemy import text

from mosaico.core.key_rotation import drop_lost_secrets, list_encrypted_columns
from mosaico.notifications.types import DeliveryTarget
from mosaico.table_list import METADATA
from tests.integration.notifications.conftest import NotificationScenario
from tests.support.service import JSON
from tests.support.stored import DatabaseReader

SLACK = "https://hooks.slack.com/services/T0/B0/abcdefgh"
SHOWN = "https://hooks.slack.com/…efgh"
OTHER = "https://hooks.slack.com/services/T0/B0/ijklmnop"
TEAMS = "https://prod-1.westeurope.logic.azure.com/workflows/1/invoke?sig=qrstuvwx"
CHANNELS = {SLACK: "SLACK", TEAMS: "TEAMS"}
KEY = base64.b64encode(bytes(range(32))).decode()
ENDPOINTS = [
    column for column in list_encrypted_columns(METADATA) if column.name == "endpoints.address"
]


@pytest.fixture
def rows(scenario: NotificationScenario) -> DatabaseReader:
    scenario.service.create_agent()
    scenario.service.create_benchmark(metrics=["EXACT_MATCH"])
    return DatabaseReader(scenario.service.resources.db.url)


def rule(scenario: NotificationScenario, *recipients: str) -> JSON:
    return scenario.service.post(
        "/alert-configs",
        {
            "id": "rule-1",
            "name": "quality falls",
            "benchmarkId": "bench-001",
            "metric": "EXACT_MATCH",
            "condition": "LESS_THAN",
            "threshold": 0.5,
            "channels": [name for url, name in CHANNELS.items() if url in recipients],
            "recipients": recipients,
        },
    )


def addresses(scenario: NotificationScenario, rule_id: str = "rule-1") -> list[str]:
    """Whom a rule tells, opened."""
    query = "SELECT endpoint.* FROM alert_rules AS rule, endpoints AS endpoint WHERE rule.id = :id"
    res = scenario.service.resources
    with res.db.read() as session:
        endpoint_rows = session.execute(
            text(
                f"{query} AND rule.endpoints ? endpoint.id ORDER BY endpoint.channel, recipient_hash"
            ),
            {"id": rule_id},
        )
        return sorted(
            res.secrets.decrypt(
                row.address, table="endpoints", row=row.id, column="address"
            ).reveal()
            for row in endpoint_rows
        )


def everything_stored(rows: DatabaseReader) -> str:
    tables = rows.all(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
    )
    return json.dumps(
        [rows.all(f"SELECT row_to_json(t)::text FROM {table} AS t") for (table,) in tables]
    )


def test_encrypted_recipients__not_in_database_or_responses(
    scenario: NotificationScenario, rows: DatabaseReader
) -> None:
    rule_view = rule(scenario, SLACK, TEAMS)
    assert rule_view["recipients"] == [SHOWN, "https://prod-1.westeurope.logic.azure.com/…uvwx"]
    scenario.service.post("/alert-configs/rule-1/test")
    answers = [
        scenario.service.get(path) for path in ("/alert-configs", "/endpoints", "/deliveries")
    ]
    for stored_text in (everything_stored(rows), json.dumps(answers)):
        for address in (SLACK, TEAMS):
            assert address[-8:] not in stored_text
            assert address not in stored_text
    assert addresses(scenario) == [SLACK, TEAMS]


@pytest.mark.parametrize(
    # What servers repeat: the URL as it was sent, decoded, quoted, escaped or in capitals.
    "echoed",
    [
        "cannot POST {url}",
        "cannot POST {path}",
        '{{"path": "services\\/T0\\/abcd efgh"}}',
        "no token ABCD%20EFGH, nor abcd+efgh",
        "{quoted} is unknown, and so is sig=qr+st",
        "nobody is called qr st here",
    ],
)
def test_delivery_detail__echoed_url_is_redacted(
    scenario: NotificationScenario, echoed: str
) -> None:
    path = "services/T0/abcd%20efgh?sig=qr+st"
    url = scenario.receiver.at(path)
    response_text = echoed.format(url=url, path=f"/{path}", quoted=quote(url, safe=""))
    scenario.receiver.will(
        "services/T0/abcd efgh", lambda: Response(response_text, status_code=500)
    )
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    scenario.work()
    detail = scenario.delivery(notification_id)["detail"]
    assert detail.startswith("HTTP 500: ")
    assert "…" in detail
    for part in ("abcd", "efgh", "qr"):
        assert part not in detail.casefold()


def test_redacted_recipient__sent_back_keeps_stored_one(
    scenario: NotificationScenario, rows: DatabaseReader
) -> None:
    rule_view = rule(scenario, SLACK, TEAMS)
    own = {
        "id",
        "states",
        "precision",
        "promisedFalsePages",
        "record",
        "revision",
        "createdAt",
        "updatedAt",
    }
    body = {name: value for name, value in rule_view.items() if name not in own}
    assert (
        scenario.service.put("/alert-configs/rule-1", body)["recipients"] == rule_view["recipients"]
    )
    assert addresses(scenario) == [SLACK, TEAMS]
    scenario.service.patch("/alert-configs/rule-1", {"recipients": [SHOWN, TEAMS, OTHER]})
    assert addresses(scenario) == [SLACK, OTHER, TEAMS]
    only_slack = scenario.service.patch(
        "/alert-configs/rule-1", {"channels": ["SLACK"], "recipients": [SHOWN]}
    )
    assert only_slack["recipients"] == [SHOWN]
    assert addresses(scenario) == [SLACK]


def test_change_channels__must_match_stored_recipients(
    scenario: NotificationScenario, rows: DatabaseReader
) -> None:
    rule(scenario, SLACK, TEAMS)
    scenario.service.expect_problem(422, "PATCH", "/alert-configs/rule-1", {"channels": ["SLACK"]})
    assert addresses(scenario) == [SLACK, TEAMS]


def test_redacted_recipient__unknown_one_is_rejected(
    scenario: NotificationScenario, rows: DatabaseReader
) -> None:
    rule(scenario, TEAMS)
    problem = scenario.service.expect_problem(
        422,
        "PATCH",
        "/alert-configs/rule-1",
        {"channels": ["TEAMS", "SLACK"], "recipients": [SHOWN]},
    )
    assert "is shown redacted; send the full URL" in problem["errors"][0]["detail"]
    scenario.service.expect_problem(
        422, "POST", "/endpoints", {"channel": "SLACK", "recipient": SHOWN}
    )


def test_ensure_endpoints__same_recipient_with_different_ciphertext_is_one(
    scenario: NotificationScenario, rows: DatabaseReader
) -> None:
    rule(scenario, SLACK)
    body = {"channel": "SLACK", "recipient": SLACK}
    assert scenario.service.post("/endpoints", body) == scenario.service.post("/endpoints", body)
    assert rows.value("SELECT count(*) FROM endpoints") == 1


def test_dropped_recipient__fails_with_reason_and_can_be_saved_again(
    scenario: NotificationScenario, rows: DatabaseReader
) -> None:
    url = scenario.receiver.at("hook")
    notification_id = scenario.publish(DeliveryTarget("WEBHOOK", url))
    res = scenario.service.resources
    # As after the loss of the master key.
    assert drop_lost_secrets(res.db, ENDPOINTS, res.secrets.encryption_key_id) == 1
    scenario.work()
    assert "was dropped" in scenario.delivery(notification_id)["detail"]
    again = scenario.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    assert again["id"] == scenario.delivery(notification_id)["endpointId"]
    scenario.work(later_s=10)
    assert scenario.delivery(notification_id)["status"] == "DELIVERED"
