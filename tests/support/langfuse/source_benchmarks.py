"""An agent and a benchmark that read a fake Langfuse."""

from typing import Any

from tests.support.langfuse import FakeLangfuse
from tests.support.service import JSON, Service


def agent(service: Service, langfuse: FakeLangfuse, **fields: Any) -> JSON:
    fields_of_query = {
        "langfuseUrl": langfuse.url,
        "langfusePublicKey": langfuse.public_key,
        "langfuseSecretKey": langfuse.secret_key,
        **fields,
    }
    return service.create_agent(**fields_of_query)


def benchmark(service: Service) -> None:
    service.create_benchmark(source="langfuse", metrics=["ACCURACY"])


def refused_at(service: Service) -> str | None:
    refused_at: str | None = service.get("/agents/agent-001")["credentialsRefusedAt"]
    return refused_at
