"""Agents whose traces are in other tools: `source` with its credentials, and the `langfuse…` fields beside it."""

from typing import Any

import pytest
from sqlalchemy import text

from mosaico.agents.queries import get_agent
from mosaico.agents.service import agent_query
from mosaico.agents.source_fields import default_source
from mosaico.core.encryption import Secret
from mosaico.core.resources import Resources
from mosaico.traces.registry import (
    TRACE_SOURCES,
    CredentialsRefused,
    SourceCheck,
    SourceSpec,
    TraceQuery,
)
from tests.support.page_reads import HTML
from tests.support.service import JSON, Service, pointers

SECRET = "token-0123456789-never-shown"
SOURCE: JSON = {
    "kind": "otel",
    "url": "https://traces.example.org",
    "project": "support",
    "publicKey": "reader",
    "secretKey": SECRET,
}
SHOWN: JSON = {
    **{key: value for key, value in SOURCE.items() if key != "secretKey"},
    "secretSet": True,
}


def test_agent_source__is_stored_encrypted_and_given_to_the_source(service: Service) -> None:
    agent = service.create_agent(source=SOURCE)
    assert agent["source"] == SHOWN
    assert SECRET not in str(service.get("/agents"))
    with service.resources.db.read() as session:
        assert SECRET not in str(list(session.scalars(text("SELECT a::text FROM agents a"))))
        stored = get_agent(session, "agent-001")
        query = agent_query(stored, service.resources)
        assert default_source(stored) == "otel"
    assert (query.url, query.project, query.public_key) == (SOURCE["url"], "support", "reader")
    assert query.secret_key == Secret(SECRET)
    # The names of the original are those of an agent without Langfuse.
    assert (agent["langfuseProjectName"], agent["llangfusePublicKey"]) == (None, None)
    assert agent["langfuseUrl"] == "https://cloud.langfuse.com"


def test_agent_source__langfuse_fields_are_the_kind_langfuse(service: Service) -> None:
    by_name = service.create_agent(
        "by-name",
        langfuseUrl="https://lf.example.org",
        langfusePublicKey="pk",
        langfuseSecretKey="sk",
    )
    source = {
        "kind": "langfuse",
        "url": "https://lf.example.org",
        "publicKey": "pk",
        "secretKey": "sk",
    }
    by_source = service.create_agent("by-source", source=source)
    same = ("source", "langfuseUrl", "llangfuseUrl", "langfusePublicKey", "secretSet")
    assert {name: by_name[name] for name in same} == {name: by_source[name] for name in same}
    assert by_source["source"]["kind"] == "langfuse"
    # One field of the two forms changes: the other form is sent as it is shown.
    changed = service.put("/agents/by-source", {**by_source, "llangfusePublicKey": "new"})
    assert (changed["source"]["publicKey"], changed["secretSet"]) == ("new", True)
    shown = changed["source"]
    changed = service.put("/agents/by-source", {**changed, "source": {**shown, "project": "p"}})
    assert (changed["langfuseProjectName"], changed["secretSet"]) == ("p", True)
    assert service.create_agent("uploads")["source"] is None


def test_agent_source__a_stored_secret_stays_with_its_server(service: Service) -> None:
    shown = service.create_agent(source=SOURCE)
    renamed = service.put("/agents/agent-001", {**shown, "source": {**SHOWN, "project": "new"}})
    assert renamed["source"] == {**SHOWN, "project": "new"}
    for change in ({"url": "https://evil.example.org"}, {"kind": "langfuse"}):
        body = {"source": {**SHOWN, **change}}
        problem = service.expect_problem(422, "PATCH", "/agents/agent-001", body)
        assert problem["type"] == "/problems/secret-required"
        assert pointers(problem) == ["/source/secretKey"]
    problem = service.expect_problem(422, "PUT", "/agents/agent-001", {"name": "Pelican"})
    assert problem["type"] == "/problems/secret-required"
    moved = {**SOURCE, "url": "https://other.example.org", "secretKey": "another"}
    assert service.patch("/agents/agent-001", {"source": moved})["source"]["url"] == moved["url"]
    cleared = service.patch("/agents/agent-001", {"source": None})
    assert (cleared["source"], cleared["secretSet"]) == (None, False)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"source": {"kind": "nowhere"}}, ["/source/kind"]),
        ({"source": {"url": "https://x.example.org"}}, ["/source/kind"]),
        ({"source": {"kind": "otel", "secretSet": True}}, ["/source/secretSet"]),
        ({"source": {"kind": "otel", "token": "x"}}, ["/source/token"]),
        ({"source": {"kind": "otel"}, "langfuseUrl": "https://x.example.org"}, ["/source"]),
        ({"source": {"kind": "otel", "url": "http://169.254.169.254"}}, ["/source/url"]),
    ],
    ids=str,
)
def test_agent_source__invalid_ones_are_refused_with_pointers(
    service: Service, body: dict[str, Any], wrong: list[str]
) -> None:
    problem = service.expect_problem(422, "POST", "/agents", {"name": "a", **body})
    assert pointers(problem) == wrong


def test_agent_source__langfuse_fields_of_an_agent_of_another_tool_are_refused(
    service: Service,
) -> None:
    service.create_agent(source=SOURCE)
    for name in ("langfuseUrl", "llangfuseUrl"):
        body = {name: "https://x.example.org"}
        assert pointers(service.expect_problem(422, "PATCH", "/agents/agent-001", body)) == [
            "/source"
        ]
    assert service.patch("/agents/agent-001", {"langfuseUrl": None})["source"] == SHOWN
    check = service.post("/agents/agent-001/check")
    assert (check["ok"], check["source"], check["errorCode"]) == (
        False,
        "otel",
        "SOURCE_HAS_NO_CHECK",
    )


def test_agent_page__shows_the_tool_in_place_of_langfuse(service: Service) -> None:
    service.create_agent(source=SOURCE)
    for path in ("/agents", "/agents/agent-001"):
        page = service.client.get(path).text
        assert "support" in page
        assert SECRET not in page
    assert "https://traces.example.org" in page
    assert "https://cloud.langfuse.com" not in page


@pytest.fixture
def heron(monkeypatch: pytest.MonkeyPatch) -> JSON:
    """The source of an agent whose tool is a plugin, which refuses the secret key `wrong`."""

    def check(_res: Resources, query: TraceQuery) -> SourceCheck:
        if query.secret_key == Secret("wrong"):
            raise CredentialsRefused("Heron refused the key; set another one")
        return SourceCheck(api="v1", version=None, project=query.project)

    spec = SourceSpec(open=lambda _: pytest.fail("nothing is read"), title="Heron", check=check)
    monkeypatch.setitem(TRACE_SOURCES._items, "heron", spec)
    return {**SOURCE, "kind": "heron"}


def test_agent_pages__name_the_tool_of_a_plugin(service: Service, heron: JSON) -> None:
    service.create_agent(source=heron)
    accepted = service.client.post("/agents/agent-001/check", headers=HTML).text
    assert "Heron accepts the keys" in accepted
    for page in (accepted, service.client.get("/agents").text):
        assert "Heron" in page
        assert "Langfuse" not in page


def test_agent_form__has_the_tools_that_read_with_keys(service: Service, heron: JSON) -> None:
    page = service.client.get("/new/agent", headers=HTML).text
    assert '<option value="heron">Heron</option>' in page
    assert '<option value="langfuse">Langfuse</option>' in page
    assert 'value="otel"' not in page
    form = {"form": "1", "id": "a", "name": "A"}
    fields = {f"source.{name}": value for name, value in heron.items()}
    saved = service.client.post("/agents", data={**form, **fields}, headers=HTML)
    assert saved.status_code == 303, saved.text
    agent = service.get("/agents/a")
    assert agent["source"] == {**SHOWN, "kind": "heron"}
    edited = {**form, **fields, "revision": "1", "source.secretKey": "", "source.project": "p"}
    assert service.client.post("/agents/a", data=edited, headers=HTML).status_code == 303
    assert service.get("/agents/a")["source"] == {**SHOWN, "kind": "heron", "project": "p"}
    removed = {**edited, "revision": "2", "remove:source.secretKey": "1"}
    assert service.client.post("/agents/a", data=removed, headers=HTML).status_code == 303
    assert service.get("/agents/a")["source"]["secretSet"] is False


def test_agent_form__of_an_agent_without_a_tool_stores_none(service: Service) -> None:
    form = {"form": "1", "id": "a", "name": "A", "source.kind": "", "source.url": ""}
    assert service.client.post("/agents", data=form, headers=HTML).status_code == 303
    assert service.get("/agents/a")["source"] is None


def test_agent_form__keeps_the_langfuse_fields_of_an_agent_without_a_key(service: Service) -> None:
    service.create_agent(langfuseProjectName="birds", langfuseUrl="https://langfuse.example.org")
    form = {"form": "1", "revision": "1", "name": "Renamed", "source.kind": "", "source.url": ""}
    assert service.client.post("/agents/agent-001", data=form, headers=HTML).status_code == 303
    agent = service.get("/agents/agent-001")
    assert (agent["name"], agent["langfuseProjectName"]) == ("Renamed", "birds")
    assert agent["langfuseUrl"] == "https://langfuse.example.org"


def test_agent_check__keys_that_a_plugin_refuses_are_recorded(
    service: Service, heron: JSON
) -> None:
    service.create_agent(source={**heron, "secretKey": "wrong"})
    assert service.post("/agents/agent-001/check")["errorCode"] == "CREDENTIALS_REFUSED"
    assert service.get("/agents/agent-001")["credentialsRefusedAt"] is not None


@pytest.mark.usefixtures("heron")
def test_guided_setup__offers_the_tools_of_plugins(service: Service) -> None:
    assert 'value="heron"' in service.client.get("/setup", headers=HTML).text
