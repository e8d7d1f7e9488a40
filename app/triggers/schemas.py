from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, Secret

from app.core.schemas import Identifier, ShortText, WireModel
from app.triggers.rules import EventStatus, EventType

MAX_OVERLAP_S = 30 * 24 * 3600


class WebhookRun(WireModel):
    """What a signed call may say of the runs that it starts; nothing at all will do."""

    agent_id: Identifier | None = Field(
        default=None, description="None: each agent that the benchmark evaluates."
    )
    run_name: ShortText | None = Field(
        default=None, description="Run of the dataset to read instead of the benchmark's own."
    )


class SecretRotation(WireModel):
    """How long the earlier secrets of the benchmark still count."""

    earlier_end_after_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_S)] | None = Field(
        default=None, description="None: until they are deleted."
    )


class WebhookSecretView(WireModel):
    id: str
    created_at: datetime
    expires_at: datetime | None


class WebhookSecretCreated(WebhookSecretView):
    """A new secret with its text, which is shown this once."""

    secret: str


class LangfuseSecretCreate(WireModel):
    """A secret that Langfuse made for a webhook or for remote experiments."""

    name: ShortText
    # A pattern beside `SecretStr` itself would be applied to the mask.
    secret: Secret[Annotated[str, Field(pattern=r"^lf-whsec_[!-~]{16,200}$")]] = Field(
        examples=["lf-whsec_…"]
    )


class LangfuseSecretView(WireModel):
    id: str
    name: str
    created_at: datetime


class EventView(WireModel):
    """Something that happened and may start runs, and what came of it.

    `times` counts what was taken for one event; `secretId` is what a webhook was signed with.
    """

    id: str
    type: EventType
    subject: str | None
    status: EventStatus
    reason: str | None
    benchmark_ids: list[str]
    run_ids: list[str]
    times: int
    secret_id: str | None
    details: dict[str, Any]
    received_at: datetime
    settled_at: datetime | None
