"""Whoever knows the address of a chat can write there: it is stored sealed and shown cut short."""

import base64
import json
from urllib.parse import quote

import pytest
from fastapi.responses import Response
from sqlalchemy import text

from app.core.key_rotation import drop_lost_secrets, list_encrypted_columns
from app.notifications.types import DeliveryTarget
from app.tables import METADATA
from tests.integration.notifications.conftest import Scene
from tests.support.service import JSON
from tests.support.stored import Rows

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
def rows(scene: Scene) -> Rows:
    scene.service.agent()
    scene.service.benchmark(metrics=["EXACT_MATCH"])
    return Rows(scene.service.resources.db.url)


def rule(scene: Scene, *recipients: str) -> JSON:
    return scene.service.post(
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


def addresses(scene: Scene, rule_id: str = "rule-1") -> list[str]:
    """Whom a rule tells, opened."""
    query = "SELECT endpoint.* FROM alert_rules AS rule, endpoints AS endpoint WHERE rule.id = :id"
    res = scene.service.resources
    with res.db.read() as session:
        found = session.execute(
            text(
                f"{query} AND rule.endpoints ? endpoint.id ORDER BY endpoint.channel, recipient_hash"
            ),
            {"id": rule_id},
        )
        return sorted(
            res.secrets.decrypt(
                each.address, table="endpoints", row=each.id, column="address"
            ).reveal()
            for each in found
        )


def everything_stored(rows: Rows) -> str:
    tables = rows.all(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
    )
    return json.dumps(
        [rows.all(f"SELECT row_to_json(t)::text FROM {table} AS t") for (table,) in tables]
    )


def test_the_addresses_of_a_rule_are_nowhere_in_the_database_or_in_an_answer(
    scene: Scene, rows: Rows
) -> None:
    made = rule(scene, SLACK, TEAMS)
    assert made["recipients"] == [SHOWN, "https://prod-1.westeurope.logic.azure.com/…uvwx"]
    scene.service.post("/alert-configs/rule-1/test")
    answers = [scene.service.get(path) for path in ("/alert-configs", "/endpoints", "/deliveries")]
    for known in (everything_stored(rows), json.dumps(answers)):
        for address in (SLACK, TEAMS):
            assert address[-8:] not in known
            assert address not in known
    assert addresses(scene) == [SLACK, TEAMS]


@pytest.mark.parametrize(
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
def test_a_server_that_says_where_it_was_called_does_not_tell_whoever_reads_the_failure(
    scene: Scene, echoed: str
) -> None:
    path = "services/T0/abcd%20efgh?sig=qr+st"
    url = scene.receiver.at(path)
    said = echoed.format(url=url, path=f"/{path}", quoted=quote(url, safe=""))
    scene.receiver.will("services/T0/abcd efgh", lambda: Response(said, status_code=500))
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
    scene.work()
    detail = scene.delivery(told)["detail"]
    assert detail.startswith("HTTP 500: ")
    assert "…" in detail
    for part in ("abcd", "efgh", "qr"):
        assert part not in detail.casefold()


def test_what_is_shown_may_be_sent_back_and_stands_for_what_is_stored(
    scene: Scene, rows: Rows
) -> None:
    made = rule(scene, SLACK, TEAMS)
    own = {"id", "states", "precision", "revision", "createdAt", "updatedAt"}
    body = {name: value for name, value in made.items() if name not in own}
    assert scene.service.put("/alert-configs/rule-1", body)["recipients"] == made["recipients"]
    assert addresses(scene) == [SLACK, TEAMS]
    scene.service.patch("/alert-configs/rule-1", {"recipients": [SHOWN, TEAMS, OTHER]})
    assert addresses(scene) == [SLACK, OTHER, TEAMS]
    only_slack = scene.service.patch(
        "/alert-configs/rule-1", {"channels": ["SLACK"], "recipients": [SHOWN]}
    )
    assert only_slack["recipients"] == [SHOWN]
    assert addresses(scene) == [SLACK]


def test_channels_that_are_changed_alone_fit_the_recipients_that_there_are(
    scene: Scene, rows: Rows
) -> None:
    rule(scene, SLACK, TEAMS)
    scene.service.refused(422, "PATCH", "/alert-configs/rule-1", {"channels": ["SLACK"]})
    assert addresses(scene) == [SLACK, TEAMS]


def test_a_cut_address_that_the_rule_does_not_have_is_refused(scene: Scene, rows: Rows) -> None:
    rule(scene, TEAMS)
    problem = scene.service.refused(
        422,
        "PATCH",
        "/alert-configs/rule-1",
        {"channels": ["TEAMS", "SLACK"], "recipients": [SHOWN]},
    )
    assert "is shown redacted; send the full URL" in problem["errors"][0]["detail"]
    scene.service.refused(422, "POST", "/endpoints", {"channel": "SLACK", "recipient": SHOWN})


def test_one_recipient_is_one_endpoint_although_no_seal_is_like_another(
    scene: Scene, rows: Rows
) -> None:
    rule(scene, SLACK)
    body = {"channel": "SLACK", "recipient": SLACK}
    assert scene.service.post("/endpoints", body) == scene.service.post("/endpoints", body)
    assert rows.value("SELECT count(*) FROM endpoints") == 1


def test_an_address_that_is_given_up_is_told_and_can_be_given_again(
    scene: Scene, rows: Rows
) -> None:
    url = scene.receiver.at("hook")
    told = scene.tell(DeliveryTarget("WEBHOOK", url))
    with scene.service.resources.db.begin() as session:
        assert (
            drop_lost_secrets(session, ENDPOINTS, scene.service.resources.secrets.encryption_key_id)
            == 1
        )
    scene.work()
    assert "was dropped" in scene.delivery(told)["detail"]
    again = scene.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    assert again["id"] == scene.delivery(told)["endpointId"]
    scene.work(later_s=10)
    assert scene.delivery(told)["status"] == "DELIVERED"
