"""Who calls, where a signature stands in for an API key."""

import logging
from typing import Annotated

from fastapi import Path, Request, Security
from fastapi.security import APIKeyHeader

from app.access.limits import FailureLimit
from app.core.errors import Unauthorized
from app.core.problems import TooManyRequests
from app.core.resources import Resources
from app.core.web.deps import Res
from app.core.web.request_body import RawBody
from app.triggers import service
from app.triggers.rules import (
    TOLERANCE_S,
    SignedCall,
    digest,
    langfuse_call,
    seconds_off,
    signer_of,
    standard_call,
)
from app.triggers.service import Received

log = logging.getLogger(__name__)

CHALLENGE = {"WWW-Authenticate": "Signature"}

STANDARD = APIKeyHeader(
    name="webhook-signature",
    scheme_name="StandardWebhooks",
    auto_error=False,
    description="Standard Webhooks 1.0: with the headers `webhook-id` and `webhook-timestamp`,"
    " signed with a webhook secret of the benchmark.",
)
LANGFUSE = APIKeyHeader(
    name="x-langfuse-signature",
    scheme_name="LangfuseSignature",
    auto_error=False,
    description="`t=…,v1=…` as Langfuse signs, with a secret that is known here.",
)


class BadSignature(Unauthorized):
    """The call is not signed with a secret of this address; sign what you send, byte by byte."""

    code = "bad-signature"


class StaleSignature(Unauthorized):
    """The signature is too old or from the future; set the clock, sign anew and send again."""

    code = "stale-signature"


def standard_signature(
    request: Request,
    benchmark_id: Annotated[str, Path(alias="benchmarkId")],
    body: RawBody,
    res: Res,
    signatures: Annotated[str | None, Security(STANDARD)],
) -> Received:
    """A call that is signed with a secret of the benchmark.

    Raises: `BadSignature` for unsigned and wrongly signed calls, benchmarks without a secret and
            unknown benchmarks alike; `StaleSignature`, `TooManyRequests`.
    """
    message_id = _single(request, "webhook-id")
    call = standard_call(message_id, _single(request, "webhook-timestamp"), signatures, body)
    return _checked(request, res, benchmark_id, call, call_id=message_id, body=body)


def langfuse_signature(
    request: Request,
    body: RawBody,
    res: Res,
    signature: Annotated[str | None, Security(LANGFUSE)],
) -> Received:
    """A call that is signed with a secret of Langfuse; raises as `standard_signature` does."""
    call = langfuse_call(signature, body)
    call_id = digest(call.content) if call else None
    return _checked(request, res, None, call, call_id=call_id, body=body)


def _checked(
    request: Request,
    res: Resources,
    benchmark_id: str | None,
    call: SignedCall | None,
    *,
    call_id: str | None,
    body: bytes,
) -> Received:
    if call is None or call_id is None:
        raise _refusal(request)
    now = res.clock()
    with res.db.read() as session:
        known = service.known_secrets(session, benchmark_id, res.secrets, now)
    signer = signer_of(call, [secret.key for secret in known])
    if signer is None:
        raise _refusal(request)
    # Only who holds a secret is told this.
    if (off_s := seconds_off(call, now)) > TOLERANCE_S:
        raise StaleSignature(
            f"the call was signed {off_s} s away from the clock here, at most {TOLERANCE_S} s are"
            " accepted; set the clock, sign anew and send again",
            headers=CHALLENGE,
        )
    return Received(call_id=call_id, fingerprint=digest(body), secret_id=known[signer].id)


def _refusal(request: Request) -> BadSignature | TooManyRequests:
    """401, and 429 to an address that was wrong too often; a right signature never comes here."""
    failures = _failures(request)
    address = request.client.host if request.client else None
    wait_s = failures.wait_s(address)
    if wait_s:
        return TooManyRequests(
            f"too many calls from your address were not signed rightly; wait {wait_s} s, then send"
            " one that is",
            headers={"Retry-After": str(wait_s)},
        )
    failures.note(address)
    log.info("webhook refused: path=%s address=%s", request.url.path, address)
    return BadSignature(headers=CHALLENGE)


def _failures(request: Request) -> FailureLimit:
    state = request.app.state
    found = getattr(state, "wrong_signatures", None)
    if not isinstance(found, FailureLimit):
        found = state.wrong_signatures = FailureLimit()
    return found


def _single(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    return values[0] if len(values) == 1 else None
