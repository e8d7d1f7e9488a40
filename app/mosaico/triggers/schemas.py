"""Wire schemas of triggers."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, Secret

from mosaico.core.defaults import MAX_SECRET_OVERLAP_S
from mosaico.core.schemas import Identifier, ShortText, WireModel
from mosaico.triggers.rules import TriggerEventStatus, TriggerEventType


class WebhookRunRequest(WireModel):
    """Options of a signed call for the runs that it starts; all fields are optional."""

    agent_id: Identifier | None = Field(
        default=None, description="Agent to run; null runs each agent that the benchmark evaluates."
    )
    run_name: ShortText | None = Field(
        default=None,
        description="Run of the dataset to read, instead of the run name of the benchmark.",
    )


class WebhookSecretCreate(WireModel):
    """Options for a new secret of a benchmark."""

    previous_expires_after_seconds: Annotated[int, Field(ge=0, le=MAX_SECRET_OVERLAP_S)] | None = (
        Field(
            default=None,
            description="Validity of the previous secrets; null keeps them valid until deleted.",
        )
    )


class WebhookSecretView(WireModel):
    """A webhook secret without its text."""

    id: str
    created_at: datetime
    expires_at: datetime | None


class WebhookSecretCreated(WebhookSecretView):
    """A new secret with its text, which is returned only once."""

    secret: str


class LangfuseSecretCreate(WireModel):
    """A secret that Langfuse generated for a webhook or for remote experiments."""

    name: ShortText
    # A pattern beside `SecretStr` itself would be applied to the mask.
    secret: Secret[Annotated[str, Field(pattern=r"^lf-whsec_[!-~]{16,200}$")]] = Field(
        examples=["lf-whsec_…"]
    )


class LangfuseSecretView(WireModel):
    """A Langfuse secret without its text."""

    id: str
    name: str
    created_at: datetime


class TriggerEventView(WireModel):
    """An event that may start runs, and its outcome.

    `occurrences` counts the changes that were merged into the event; `secretId` is the secret that
    signed the webhook.
    """

    id: str
    type: TriggerEventType
    subject: str | None
    status: TriggerEventStatus
    reason: str | None
    benchmark_ids: list[str]
    run_ids: list[str]
    occurrences: int
    secret_id: str | None
    details: dict[str, Any]
    received_at: datetime
    settled_at: datetime | None
