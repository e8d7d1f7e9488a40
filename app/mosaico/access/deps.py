"""Authorization: one dependency per route declares the required role."""

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.concurrency import run_in_threadpool

from mosaico.access.audit_middleware import audit_request
from mosaico.access.authentication import CHALLENGE, Caller
from mosaico.access.rules import RoleName, role_allows
from mosaico.core.errors import Forbidden, Unauthorized
from mosaico.core.resources import Resources
from mosaico.core.row_limits import OutsideLimit
from mosaico.core.web.deps import SAFE_METHODS

BEARER = HTTPBearer(description="An API key of this service, as `Authorization: Bearer <key>`.")


class RoleRequirement(SecurityBase):
    """The dependency of a route that requires a role of the caller.

    It is also the security scheme of the route in the OpenAPI description, so that FastAPI
    resolves one dependency instead of two.

    Raises: `Forbidden`; `Unauthorized` if `AuthenticationMiddleware` did not find the caller.
    """

    model = BEARER
    scheme_name = "ApiKey"

    def __init__(self, role: RoleName) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Caller:
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None:
            raise Unauthorized(headers=CHALLENGE)
        if not role_allows(caller.role, self.role):
            # An attempt to change something without the right to is worth an entry; reads are not
            # recorded at all.
            await run_in_threadpool(_record_refusal, request)
            raise Forbidden(
                f"this operation requires an API key with the role {self.role}, but your key has "
                f"the role {caller.role}; use another key, or ask an administrator for one"
            )
        return caller


# The dependencies of a route that requires a role: `dependencies=READ`.
READ = [Depends(RoleRequirement("read"))]
RUN = [Depends(RoleRequirement("run"))]
ADMIN = [Depends(RoleRequirement("admin"))]


async def require_no_limit(request: Request) -> None:
    """Refuse a caller who sees only some benchmarks, where what is shown or sent is of none or of all.

    Raises: `OutsideLimit`.
    """
    if get_caller(request).only is not None:
        raise OutsideLimit(
            "this key or person is limited to some benchmarks, and this is of the whole service; use one without limits"
        )


# For routes of what is of no single benchmark.
WHOLE_SERVICE = [Depends(require_no_limit)]


def get_caller(request: Request) -> Caller:
    """The caller of a request whose route requires a role."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise RuntimeError(
            f"{request.method} {request.url.path} declares no role; add dependencies=READ"
        )
    return caller


def _record_refusal(request: Request) -> None:
    # The log is about changes, done or attempted.
    if request.method in SAFE_METHODS:
        return
    resources: Resources = request.app.state.resources
    with resources.db.begin() as session:
        audit_request(request, session, outcome="refused")
