"""What production does not start with: a key that somebody made up, a role that may do anything."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.errors import AppError

# A member of such a role may become it; a superuser is a member of every role.
_PRIVILEGED_ROLE = """
    SELECT rolname FROM pg_roles
    WHERE (rolsuper OR rolbypassrls) AND pg_has_role(session_user, oid, 'MEMBER')
    ORDER BY rolname = session_user DESC LIMIT 1
"""


class PrivilegedDatabaseRole(AppError):
    """The service would use the database as a superuser; give it a role of its own."""

    code = "privileged-database-role"
    exit_code = 78


def require_restricted_role(session: Session) -> None:
    """Raises: `PowerfulDatabaseRole` when the service may do more than with its own tables."""
    role = session.scalar(text(_PRIVILEGED_ROLE))
    if role is not None:
        raise PrivilegedDatabaseRole(
            f"the role of DATABASE_URL is, or may become, {role}, which no rule of the database"
            " holds back; production needs one without SUPERUSER and BYPASSRLS,"
            " see docs/security.md"
        )
