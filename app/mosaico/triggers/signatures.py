"""Authentication of webhook calls by signature instead of API key."""

import logging
from typing import Annotated

from fastapi import Path, Request, Security
from fastapi.security import APIKeyHeader

from mosaico.access.rate_limits import FailureLimiter
from mosaico.core.defaults import MAX_CLOCK_DIFFERENCE
from mosaico.core.errors import Unauthorized
from mosaico.core.problem_documents import TooManyRequests
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.request_body import RawBody
from mosaico.triggers.rules import (
    SignedMessage,
    clock_skew_s,
    digest,
    find_signing_key,
    parse_langfuse_signature,
    parse_standard_signature,
)
from mosaico.triggers.secrets import list_signing_secrets
from mosaico.triggers.service import VerifiedTriggerCall

log = logging.getLogger(__name__)

CHALLENGE = {"WWW-Authenticate": "Signature"}

STANDARD = APIKeyHeader(
    name="webhook-signature",
    scheme_name="StandardWebhooks",
    auto_error=False,
    description="Standard Webhooks 1.0 signature with a webhook secret of the benchmark; requires the"
    " headers `webhook-id` and `webhook-timestamp`.",
)
LANGFUSE = APIKeyHeader(
    name="x-langfuse-signature",
    scheme_name="LangfuseSignature",
    auto_error=False,
    description="Langfuse signature `t=…,v1=…` with a registered Langfuse secret.",
)


class BadSignature(Unauthorized):
    """The signature is not valid; send a signature of the exact body bytes with a current secret."""


class StaleSignature(Unauthorized):
    """The signature is too old or in the future; correct the clock, sign again and resend."""


def verify_standard_signature(
    request: Request,
    benchmark_id: Annotated[str, Path(alias="benchmarkId")],
    body: RawBody,
    res: Res,
    signatures: Annotated[str | None, Security(STANDARD)],
) -> VerifiedTriggerCall:
    """Verify a Standard Webhooks call with the secrets of the benchmark.

    Raises: `BadSignature` alike for a missing or wrong signature, a benchmark without secrets and
            an unknown benchmark, so that the answer reveals nothing; `StaleSignature`,
            `TooManyRequests`.
    """
    message_id = _single_header(request, "webhook-id")
    call = parse_standard_signature(
        message_id, _single_header(request, "webhook-timestamp"), signatures, body
    )
    return _verify(request, res, benchmark_id, call, call_id=message_id, body=body)


def verify_langfuse_signature(
    request: Request,
    body: RawBody,
    res: Res,
    signature: Annotated[str | None, Security(LANGFUSE)],
) -> VerifiedTriggerCall:
    """Verify a Langfuse call; raises the same errors as `verify_standard_signature`."""
    call = parse_langfuse_signature(signature, body)
    # Langfuse sends no ID: the signed content, which includes the time, identifies the call.
    call_id = digest(call.content) if call else None
    return _verify(request, res, None, call, call_id=call_id, body=body)


def _verify(
    request: Request,
    res: Resources,
    benchmark_id: str | None,
    call: SignedMessage | None,
    *,
    call_id: str | None,
    body: bytes,
) -> VerifiedTriggerCall:
    if call is None or call_id is None:
        raise _refusal(request)
    now = res.clock()
    with res.db.read() as session:
        signing_secrets = list_signing_secrets(session, benchmark_id, res.secrets, now)
    signer = find_signing_key(call, [secret.key for secret in signing_secrets])
    if signer is None:
        raise _refusal(request)
    # After the signature check: only the holder of a secret learns about the clock.
    if (skew_s := clock_skew_s(call, now)) > MAX_CLOCK_DIFFERENCE.total_seconds():
        raise StaleSignature(
            f"the signature time differs from the server clock by {skew_s} s (at most"
            f" {MAX_CLOCK_DIFFERENCE.total_seconds():g} s); correct the clock, sign again and resend",
            headers=CHALLENGE,
        )
    return VerifiedTriggerCall(
        call_id=call_id, fingerprint=digest(body), secret_id=signing_secrets[signer].id
    )


def _refusal(request: Request) -> BadSignature | TooManyRequests:
    """401, or 429 after too many failures of one address; valid signatures are never limited."""
    # Only a wrong signature comes here, so a flood of them never blocks the real sender.
    failures = _failure_limit(request)
    address = request.client.host if request.client else None
    wait_s = failures.retry_after_s(address)
    if wait_s:
        return TooManyRequests(
            f"too many calls with an invalid signature from your address; wait {wait_s} s, then"
            " send a call with a valid signature",
            headers={"Retry-After": str(wait_s)},
        )
    failures.record_failure(address)
    log.info("webhook refused: path=%s address=%s", request.url.path, address)
    return BadSignature(headers=CHALLENGE)


def _failure_limit(request: Request) -> FailureLimiter:
    state = request.app.state
    limit = getattr(state, "wrong_signatures", None)
    if not isinstance(limit, FailureLimiter):
        limit = state.wrong_signatures = FailureLimiter()
    return limit


def _single_header(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    # A header that is sent twice is ambiguous: a proxy and this service might read different ones.
    return values[0] if len(values) == 1 else None
