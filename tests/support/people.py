"""People who have logged in, for tests that need no provider."""

from mosaico.access.login_rules import Identity
from mosaico.access.people import log_in_person
from tests.support.service import Service


def create_person(service: Service) -> str:
    """The ID of a person who has logged in with the role run."""
    ana = Identity(
        issuer="https://login.example.org",
        subject="1017",
        name="Ana Rossi",
        email="ana@example.org",
    )
    with service.resources.db.begin() as session:
        return log_in_person(session, ana, "run", service.resources.clock()).owner.id
