"""Wire format of agents."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, StringConstraints

from mosaico.core.edits import SERVICE_MOVES, EditBody, patch_of
from mosaico.core.schemas import (
    HttpUrl,
    Identifier,
    LongText,
    ShortText,
    WireModel,
    require_http_url,
)
from mosaico.core.url_syntax import is_redacted

HANDOVER_SPELLING = "The original spelling with two l is also accepted."


def _both_spellings(name: str) -> AliasChoices:
    """`langfuseUrl`, and `llangfuseUrl` as the original system misspelt it."""
    return AliasChoices(f"langfuse{name}", f"llangfuse{name}")


MISSPELT = Field(
    description="Original spelling, accepted for existing scripts.",
    json_schema_extra={"deprecated": True},
)

ProjectName = Annotated[
    ShortText | None,
    Field(validation_alias=_both_spellings("ProjectName"), description=HANDOVER_SPELLING),
]
Url = Annotated[
    HttpUrl | None,
    Field(
        validation_alias=_both_spellings("Url"),
        description=f"Default: the Langfuse server in the service settings. {HANDOVER_SPELLING}",
        examples=["https://cloud.langfuse.com"],
    ),
]
PublicKey = Annotated[
    ShortText | None,
    Field(validation_alias=_both_spellings("PublicKey"), description=HANDOVER_SPELLING),
]
SecretKey = Annotated[
    SecretStr | None,
    Field(
        validation_alias=_both_spellings("SecretKey"),
        min_length=1,
        max_length=1024,
        description=f"Stored encrypted and never returned. {HANDOVER_SPELLING}",
    ),
]


RunUrl = Annotated[
    str | None,
    Field(
        max_length=2048,
        description=(
            "URL that runs the agent over a dataset. It receives a signed request for each "
            "remote experiment of Langfuse. Stored encrypted. Responses show the server and the "
            "last four characters; that form may be sent back and changes nothing."
        ),
        examples=["https://agent.example/run"],
    ),
    # A client that changes an agent may send back the URL as it is shown.
    AfterValidator(lambda url: url if url is None or is_redacted(url) else require_http_url(url)),
]


OwnerAddress = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, to_lower=True, max_length=320, pattern=r"^[^@\s]+@[^@\s]+$"
    ),
]
Owners = Annotated[
    list[OwnerAddress],
    Field(
        max_length=20,
        description="Addresses of the people whose agent it is, as their login has them; they need not have logged in"
        " yet. `mine` selects by them.",
        examples=[["ana@example.org"]],
    ),
    AfterValidator(lambda owners: list(dict.fromkeys(owners))),
]


class AgentSourceView(WireModel):
    """Where the traces of an agent are. `secretSet` is true if a secret key is stored; the key is never returned."""

    kind: str
    url: str | None
    project: str | None
    public_key: str | None
    secret_set: bool


class AgentSource(EditBody):
    """Where the traces of an agent are: a tool, the address of its server, a project and credentials."""

    shown_as: ClassVar = AgentSourceView

    kind: Annotated[
        ShortText,
        Field(
            description="Trace source: `langfuse`, or another one; `mosaico plugins` lists them.",
            examples=["phoenix"],
        ),
    ]
    url: HttpUrl | None = None
    project: ShortText | None = None
    public_key: ShortText | None = Field(
        default=None,
        description="Public half of the credentials, or a user name, if the tool has one.",
    )
    secret_key: Annotated[
        SecretStr | None,
        Field(
            min_length=1,
            max_length=1024,
            description="Key or token that reads the traces. Stored encrypted and never returned; an omitted one"
            " stays, as long as kind and URL stay.",
        ),
    ] = None


class AgentView(WireModel):
    """An agent. `secretSet` is true if a secret key is stored; the key itself is never returned. `runUrl` is
    redacted.

    `credentialsRefusedAt` is when the source first refused the current keys. The fields that begin with
    `llangfuse` repeat those of `langfuse` as the original system misspelt them.
    """

    id: str
    name: str
    description: str | None
    source: AgentSourceView | None
    langfuse_project_name: str | None
    langfuse_url: str
    langfuse_public_key: str | None
    secret_set: bool
    run_url: str | None
    llangfuse_project_name: Annotated[str | None, MISSPELT]
    llangfuse_url: Annotated[str, MISSPELT]
    llangfuse_public_key: Annotated[str | None, MISSPELT]
    otel_service_name: str | None
    credentials_refused_at: Annotated[datetime | None, SERVICE_MOVES]
    owners: list[str]
    archived: bool
    revision: int
    created_at: datetime
    updated_at: datetime


class AgentBody(EditBody):
    """All fields of an agent; an omitted field gets its default."""

    shown_as: ClassVar = AgentView

    source: AgentSource | None = Field(
        default=None,
        description="Where the traces of the agent are. The `langfuse…` fields are those of the kind `langfuse`.",
    )
    langfuse_project_name: ProjectName = None
    langfuse_url: Url = None
    langfuse_public_key: PublicKey = None
    langfuse_secret_key: SecretKey = None
    otel_service_name: ShortText | None = Field(
        default=None,
        description=(
            "`service.name` of the agent's spans: the source `otel` reads only traces with this "
            "name. Default: the traces of every service."
        ),
    )
    run_url: RunUrl = None
    name: ShortText
    description: LongText | None = None
    owners: Owners = Field(default=[])
    archived: bool = False


class AgentCreate(AgentBody):
    """A new agent, and where its traces are."""

    id: Identifier | None = None


@patch_of
class AgentPatch(AgentBody):
    """The fields to change; null clears a field."""


class AgentCheck(WireModel):
    """The result of a check of an agent's credentials for its trace source, whose URL is `langfuseUrl`.

    If `ok`, the server's API, version and project; otherwise an `errorCode`, the same as for runs,
    and a `detail` with the error and its remedy.
    """

    ok: bool
    source: str
    langfuse_url: str
    api: str | None = None
    version: str | None = None
    project: str | None = None
    error_code: str | None = None
    detail: str | None = None
