"""Secrets that are sent to a real service in every way, and failures all around: none of them is in
a log, in an answer, in a stored row.
"""

import base64
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from mosaico.core.engine import libpq_url
from mosaico.postgres.external import psql_environment
from mosaico.postgres.programs import packaged_binaries
from tests.integration.safety.conftest import PASSWORD
from tests.support.http import serving
from tests.support.postgres import url_of
from tests.support.processes import Programs, programs, until
from tests.support.waiting import LIVENESS_S


def canary(prefix: str = "", size: int = 24) -> str:
    return prefix + secrets.token_hex(size // 2)


def key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def talkative_server() -> FastAPI:
    """A server that refuses every request and repeats its credentials."""
    app = FastAPI()

    @app.get("/{path:path}")
    def refuse(path: str, request: Request) -> JSONResponse:
        authorization = request.headers.get("authorization", "")
        plain = base64.b64decode(authorization.partition(" ")[2]).decode()
        return JSONResponse({"message": f"no: {authorization}, which is {plain}"}, status_code=401)

    return app


@dataclass(slots=True)
class SecretsScenario:
    """A service in production mode, all secrets that it received, and all its responses."""

    client: httpx.Client
    programs: Programs
    planted: dict[str, str]
    answers: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, *, status: int, **request: object) -> httpx.Response:
        response = self.client.request(method, path, **request)  # type: ignore[arg-type]
        assert response.status_code == status, f"{method} {path}: {response.text}"
        self.answers.append(f"{response.headers}{response.text}")
        return response

    def shown_once(self, name: str, path: str, body: object, member: str) -> str:
        """Create a resource that is a secret; the response is its only copy."""
        headers = {"Idempotency-Key": canary()}
        response = self.client.post(path, json=body, headers=headers)
        assert response.status_code == 201, response.text
        self.planted[name] = response.json()[member]
        return str(response.json()["id"])

    @property
    def logs(self) -> str:
        return "".join(program.log for program in self.programs.processes)


@pytest.fixture
def here(superuser_url: str, fresh_database_url: str) -> str:
    """URL of the test database for a superuser."""
    return url_of(superuser_url, urlsplit(fresh_database_url).path.lstrip("/"))


@pytest.fixture
def scenario(restricted_url: str, tmp_path: Path) -> Iterator[SecretsScenario]:
    planted = {
        "password of the database": PASSWORD,
        "master key": key(),
        "earlier master key": key(),
        "admin key": canary("adm-"),
        "key of the models": canary("sk-proj-"),
    }
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        "MOSAICO_ENV": "production",
        "MOSAICO_LOG_FORMAT": "json",
        "MOSAICO_PORT": str(port),
        "MOSAICO_OUTBOUND_ALLOW": "127.0.0.0/8",
        "DATABASE_URL": restricted_url,
        "MOSAICO_MASTER_KEY": planted["master key"],
        "MOSAICO_MASTER_KEYS_OLD": planted["earlier master key"],
        "MOSAICO_ADMIN_KEY": planted["admin key"],
        "MOSAICO_LLM_BASE_URL": "http://127.0.0.1:1/v1",
        "MOSAICO_LLM_API_KEY": planted["key of the models"],
    }
    headers = {"Authorization": f"Bearer {planted['admin key']}"}
    with (
        programs(tmp_path, **environment) as started,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers=headers,
            trust_env=False,
            verify=False,
            timeout=LIVENESS_S,
        ) as client,
    ):
        started.start("api")
        started.start("worker").wait_for_output("worker is ready")
        scenario = SecretsScenario(client, started, planted)
        until(lambda: _answers(client), what=scenario.logs)
        yield scenario


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").is_success
    except httpx.HTTPError:
        return False


def send_in_every_way(scenario: SecretsScenario, talkative: str) -> None:
    """Send secrets in the right fields and in wrong ones."""
    planted, api = scenario.planted, "/api/v1"
    for name in ("agent", "changed agent"):
        planted[f"secret of an {name}"] = canary("sk-lf-")
    agent = {"id": "agent-001", "name": "Pelican", "langfuseUrl": talkative}
    agent |= {"langfusePublicKey": "pk-lf-1", "langfuseSecretKey": planted["secret of an agent"]}
    scenario.ask("POST", f"{api}/agents", status=201, json=agent)
    change = {"langfuseSecretKey": planted["secret of an changed agent"]}
    scenario.ask("PATCH", f"{api}/agents/agent-001", status=200, json=change)
    scenario.ask("GET", f"{api}/agents/agent-001", status=200)
    scenario.ask("POST", f"{api}/agents/agent-001/check", status=200)
    benchmark = {"id": "bench-001", "datasetRef": "support", "source": "langfuse"}
    scenario.ask("POST", f"{api}/benchmarks", status=201, json=benchmark)

    keys = f"{api}/keys"
    scenario.shown_once("key", keys, {"name": "reader", "role": "read"}, "token")
    revoked = scenario.shown_once("revoked key", keys, {"name": "runner", "role": "run"}, "token")
    scenario.ask("DELETE", f"{keys}/{revoked}", status=204)
    secrets_of = f"{api}/benchmarks/bench-001/webhook-secrets"
    scenario.shown_once("webhook secret", secrets_of, {}, "secret")
    planted["Langfuse webhook secret"] = canary("lf-whsec_", 40)
    body = {"name": "hook", "secret": planted["Langfuse webhook secret"]}
    scenario.ask("POST", f"{api}/langfuse-secrets", status=201, json=body)
    for name, host, status in (
        ("chat", "hooks.slack.com", 201),
        ("lost chat", "chat.example", 422),
    ):
        planted[f"address of a {name}"] = canary("T0/B0/")
        recipient = f"https://{host}/services/{planted[f'address of a {name}']}"
        endpoint = {"channel": "SLACK", "recipient": recipient}
        scenario.ask("POST", f"{api}/endpoints", status=status, json=endpoint)
    scenario.ask("GET", f"{api}/endpoints", status=200)

    def sent(name: str, prefix: str = "", size: int = 24) -> str:
        planted[name] = canary(prefix, size)
        return planted[name]

    for headers in (
        {"Authorization": f"Bearer {planted['revoked key']}"},
        {"Authorization": f"Bearer {sent('unknown key', 'mosaico_admin_')}"},
        {"Authorization": f"Basic {sent('basic credentials')}"},
        {"Authorization": "", "X-Api-Key": sent("key in a header of its own")},
        {"Authorization": "", "Cookie": f"session={sent('cookie')}"},
    ):
        scenario.ask("GET", f"{api}/agents", status=401, headers=headers)
    query = {"api_key": sent("key in a query")}
    scenario.ask("GET", f"{api}/agents", status=422, params=query)
    userinfo = f"https://user:{sent('password in a URL')}@langfuse.example"
    wrong = {"name": "Heron", "langfuseUrl": userinfo}
    scenario.ask("POST", f"{api}/agents", status=422, json=wrong)
    long = {"name": "Heron", "langfuseSecretKey": sent("secret that is too long", size=2000)}
    scenario.ask("POST", f"{api}/agents", status=422, json=long)
    misspelt = {"name": "Heron", "langfuseSecret": sent("secret in a field of another name")}
    scenario.ask("POST", f"{api}/agents", status=422, json=misspelt)
    nested = {"name": "Heron", "langfuseSecretKey": [sent("secret of another type")]}
    scenario.ask("POST", f"{api}/agents", status=422, json=nested)
    broken = f'{{"name": "Heron", "langfuseSecretKey": "{sent("secret in a broken body")}"'.encode()
    json_type = {"Content-Type": "application/json"}
    scenario.ask("POST", f"{api}/agents", status=400, content=broken, headers=json_type)
    signed = {
        "webhook-id": "m-1",
        "webhook-timestamp": "1",
        "webhook-signature": f"v1,{sent('signature')}",
    }
    hook = f"{api}/webhooks/benchmarks/bench-001/runs"
    scenario.ask("POST", hook, status=401, json={}, headers=signed)


def fail_in_every_way(scenario: SecretsScenario, here: str) -> None:
    """Cause errors: a refused run, a missing table, terminated connections."""
    body = {"benchmarkId": "bench-001", "agentId": "agent-001"}
    run_id = scenario.ask("POST", "/api/v1/benchmark-runs", status=201, json=body).json()["id"]

    def has_failed() -> bool:
        answer = scenario.client.get(f"/api/v1/benchmark-runs/{run_id}").json()
        return bool(answer["status"] == "FAILED")

    until(has_failed, what=scenario.logs)
    scenario.ask("GET", f"/api/v1/benchmark-runs/{run_id}", status=200)
    scenario.planted["secret that could not be stored"] = canary("sk-lf-")
    agent = {
        "name": "Egret",
        "langfuseSecretKey": scenario.planted["secret that could not be stored"],
    }
    with psycopg.connect(libpq_url(here), autocommit=True) as connection:
        connection.execute("ALTER TABLE agents RENAME TO away")
        scenario.ask("POST", "/api/v1/agents", status=500, json=agent)
        connection.execute("ALTER TABLE away RENAME TO agents")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    # A connection that answered a moment ago is trusted: its end costs the request that meets it.
    until(
        lambda: scenario.client.post("/api/v1/benchmark-runs", json=body).status_code == 201,
        what=scenario.logs,
    )
    until(lambda: _answers(scenario.client), what=scenario.logs)
    scenario.ask("GET", "/api/v1/audit", status=200)
    scenario.ask("GET", "/metrics", status=200)


def dumped(url: str) -> str:
    done = subprocess.run(
        [packaged_binaries().program("pg_dump"), "--no-owner"],
        env={**os.environ, **psql_environment(url)},
        capture_output=True,
        check=True,
        timeout=LIVENESS_S,
    )
    return done.stdout.decode()


def forms(secret: str) -> Iterator[str]:
    """A secret as plain text and in its encodings."""
    yield secret
    # The last characters of base64 depend on the text that follows.
    yield base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]
    yield base64.b64encode(f"pk-lf-1:{secret}".encode()).decode()
    yield secret.encode().hex()


def test_planted_secrets__are_neither_shown_nor_stored(
    scenario: SecretsScenario, here: str
) -> None:
    with serving(talkative_server()) as talkative:
        send_in_every_way(scenario, str(talkative.base_url).rstrip("/"))
        fail_in_every_way(scenario, here)
    # A scenario that plants nothing could leak nothing.
    assert len(scenario.planted) >= 20

    outputs = {"log": scenario.logs, "answers": "\n".join(scenario.answers), "dump": dumped(here)}
    # What each text must contain: an empty one would have no leak either.
    assert "request failed" in outputs["log"]
    assert "LANGFUSE_AUTH" in outputs["answers"]
    assert "agent-001" in outputs["dump"]
    leaks = [
        f"{name} in the {output_name}"
        for name, secret in scenario.planted.items()
        for output_name, text in outputs.items()
        if any(form in text for form in forms(secret))
    ]
    assert leaks == []
