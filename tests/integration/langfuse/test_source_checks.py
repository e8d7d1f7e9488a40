"""The check of an agent's Langfuse project, and what refused keys leave behind."""

import pytest

from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import ALWAYS, RespondsWith
from tests.support.langfuse.source_benchmarks import agent, benchmark, refused_at
from tests.support.service import JSON, Service


def test_check__reports_api_version_and_project(service: Service, langfuse: FakeLangfuse) -> None:
    agent(service, langfuse)
    assert service.post("/agents/agent-001/check") == {
        "ok": True,
        "source": "langfuse",
        "langfuseUrl": langfuse.url,
        "api": "v4",
        "version": "4.16.0",
        "project": "Support agent",
        "errorCode": None,
        "detail": None,
    }


def test_check__detects_a_v3_server(service: Service, langfuse_v3: FakeLangfuse) -> None:
    agent(service, langfuse_v3)
    check = service.post("/agents/agent-001/check")
    assert (check["ok"], check["api"], check["version"]) == (True, "v3", "3.140.0")


@pytest.mark.parametrize(
    ("fields", "code", "expected_detail"),
    [
        ({"langfuseSecretKey": "wrong"}, "LANGFUSE_AUTH", "belong together"),
        ({"langfuseSecretKey": None}, "LANGFUSE_AUTH", "no secret key"),
        ({"langfusePublicKey": None}, "LANGFUSE_AUTH", "no public key"),
        ({"langfuseUrl": "http://127.0.0.1:1"}, "LANGFUSE_UNAVAILABLE", "langfuseUrl"),
        # An address for documentation (RFC 5737): calls to special networks are refused.
        ({"langfuseUrl": "http://198.51.100.1"}, "REFUSED_ADDRESS", "MOSAICO_OUTBOUND_ALLOW"),
    ],
)
def test_check__reports_the_error(
    service: Service, langfuse: FakeLangfuse, fields: JSON, code: str, expected_detail: str
) -> None:
    agent(service, langfuse, **fields)
    check = service.post("/agents/agent-001/check")
    assert (check["ok"], check["errorCode"], check["project"]) == (False, code, None)
    assert expected_detail in check["detail"]
    assert langfuse.secret_key not in str(check)


def test_credentials_refused_at__set_when_keys_are_rejected(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=3)
    agent(service, langfuse, langfuseSecretKey="wrong")
    benchmark(service)
    assert refused_at(service) is None
    service.complete_run()
    first = refused_at(service)
    assert first is not None
    service.complete_run()
    assert refused_at(service) == first
    # The address is the same, and a new name proves nothing: only new keys end the refusal.
    service.patch("/agents/agent-001", {"name": "Pelican 2", "langfuseUrl": langfuse.url})
    assert refused_at(service) == first
    service.patch("/agents/agent-001", {"langfuseSecretKey": langfuse.secret_key})
    assert refused_at(service) is None


def test_credentials_refused_at__reset_by_success(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=3)
    agent(service, langfuse)
    benchmark(service)
    for by_check in (True, False):
        langfuse.inject(RespondsWith(status=401, content={"message": "no"}), on=ALWAYS)
        assert service.post("/agents/agent-001/check")["errorCode"] == "LANGFUSE_AUTH"
        assert refused_at(service) is not None
        langfuse.clear_faults()
        _ = service.post("/agents/agent-001/check") if by_check else service.complete_run()
        assert refused_at(service) is None
