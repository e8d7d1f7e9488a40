from datetime import datetime
from typing import Annotated

from pydantic import AliasChoices, Field, HttpUrl, SecretStr, field_validator

from app.core.schemas import UNSET, Identifier, LongText, ShortText, WireModel

HANDOVER_SPELLING = "The handover writes it with two l; both spellings are read."


def _either_spelling(name: str) -> AliasChoices:
    """`langfuseUrl`, and `llangfuseUrl` as the original system misspelt it."""
    return AliasChoices(f"langfuse{name}", f"llangfuse{name}")


ProjectName = Annotated[
    ShortText | None,
    Field(validation_alias=_either_spelling("ProjectName"), description=HANDOVER_SPELLING),
]
Url = Annotated[
    str | None,
    Field(
        validation_alias=_either_spelling("Url"),
        max_length=2048,
        description=f"Without it the service's default server is used. {HANDOVER_SPELLING}",
        examples=["https://cloud.langfuse.com"],
    ),
]
PublicKey = Annotated[
    ShortText | None,
    Field(validation_alias=_either_spelling("PublicKey"), description=HANDOVER_SPELLING),
]
SecretKey = Annotated[
    SecretStr | None,
    Field(
        validation_alias=_either_spelling("SecretKey"),
        min_length=1,
        max_length=1024,
        description=f"Kept encrypted and never shown again. {HANDOVER_SPELLING}",
    ),
]


class _Langfuse(WireModel):
    langfuse_project_name: ProjectName = None
    langfuse_url: Url = None
    langfuse_public_key: PublicKey = None
    langfuse_secret_key: SecretKey = None

    @field_validator("langfuse_url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None:
            url = HttpUrl(value)
            if url.username or url.password:
                raise ValueError("leave user and password out; use the two key fields")
        return value


class AgentBody(_Langfuse):
    """An agent as PUT writes it: a field that is left out takes its default."""

    name: ShortText
    description: LongText | None = None
    archived: bool = False


class AgentCreate(AgentBody):
    """An agent to benchmark, and the Langfuse project that holds its traces."""

    id: Identifier | None = None


class AgentPatch(_Langfuse):
    """Only the fields that are sent change; null clears one."""

    name: ShortText = UNSET
    description: LongText | None = None
    archived: bool = UNSET


class AgentView(WireModel):
    """`secretSet` tells whether a secret key is stored; the key itself is never shown.
    `credentialsRefusedAt` is since when Langfuse is known to refuse these keys.
    """

    id: str
    name: str
    description: str | None
    langfuse_project_name: str | None
    langfuse_url: str
    langfuse_public_key: str | None
    secret_set: bool
    credentials_refused_at: datetime | None
    archived: bool
    revision: int
    created_at: datetime
    updated_at: datetime


class AgentCheck(WireModel):
    """What came of trying the credentials of an agent.

    Either `ok` with what answered, or an `errorCode` as runs have it and what to change.
    """

    ok: bool
    langfuse_url: str
    api: str | None = None
    version: str | None = None
    project: str | None = None
    error_code: str | None = None
    detail: str | None = None
