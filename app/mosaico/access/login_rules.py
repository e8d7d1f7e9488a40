"""Who a person is according to a provider or a proxy, and the role that the operator gives them."""

from collections.abc import Sequence
from dataclasses import dataclass

from mosaico.access.rules import ROLES, RoleName
from mosaico.core.login_settings import RoleRule

PROXY_ISSUER = "proxy"  # the issuer of people whom a trusted proxy names


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A person as their provider describes them: `issuer` and `subject` together never change.

    `email` is None unless the provider says that it is verified: anybody could claim another address. `session_id`
    identifies the session at the provider, which may end it.
    """

    issuer: str
    subject: str
    name: str
    email: str | None = None
    groups: frozenset[str] = frozenset()
    session_id: str | None = None


def decide_role(identity: Identity, rules: Sequence[RoleRule]) -> RoleName | None:
    """The highest role of the rules that match a person; None if none does."""
    roles = {rule.role for rule in rules if _matches(identity, rule.who)}
    return next((role for role in reversed(ROLES) if role in roles), None)


def _matches(identity: Identity, who: str) -> bool:
    if who == "*":
        return True
    if who.startswith("group:"):
        return who.removeprefix("group:") in identity.groups
    email = (identity.email or "").lower()
    # The whole domain: `@example.org` is not that of `ana@evil-example.org`, nor of a second `@`.
    return email.rpartition("@")[2] == who[1:] if who.startswith("@") else email == who
