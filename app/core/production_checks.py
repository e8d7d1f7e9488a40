"""Production checks: a privileged database role is refused."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.errors import AppError

# A member of a privileged role can become it; a superuser counts as a member of every role.
_PRIVILEGED_ROLE = """
    SELECT rolname FROM pg_roles
    WHERE (rolsuper OR rolbypassrls) AND pg_has_role(session_user, oid, 'MEMBER')
    ORDER BY rolname = session_user DESC LIMIT 1
"""


class PrivilegedDatabaseRole(AppError):
    """The database role of the service is privileged; use a role without SUPERUSER and BYPASSRLS."""

    code = "privileged-database-role"
    exit_code = 78


def require_restricted_role(session: Session) -> None:
    """Raise `PrivilegedDatabaseRole` when the role has SUPERUSER or BYPASSRLS, or can get them."""
    role = session.scalar(text(_PRIVILEGED_ROLE))
    if role is not None:
        raise PrivilegedDatabaseRole(
            f"the role of DATABASE_URL is, or can become, {role}, which bypasses all access rules of"
            " the database; production requires a role without SUPERUSER and BYPASSRLS,"
            " see docs/security.md"
        )
