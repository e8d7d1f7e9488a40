"""Who a person is according to a provider or a proxy, and the role that the operator gives them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mosaico.access.rules import ROLES, RoleName
from mosaico.core.login_settings import RoleRule

PROXY_ISSUER = "proxy"  # the issuer of people whom a trusted proxy names
GROUP: Final = "group:"
UNCLEAR: Final = ""  # whom a header names that is not one person
# Of an address (RFC 5321); the database cannot index much longer ones.
MAX_NAMED_CHARS: Final = 320
# An address or a name: not a list of them, and nothing that only looks like an address of another domain.
_PART: Final = r"[^,;@<>\"\x00-\x1f\x7f-\x9f]+"
_NAMED: Final = re.compile(f"{_PART}(?:@{_PART})?")


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


def read_named(header: str) -> str:
    """The address or name in the header of a proxy, in lower case; `UNCLEAR` if it is not one of them in UTF-8."""
    try:
        # The headers of a request are decoded as Latin-1.
        named = header.encode("latin-1").decode().strip().lower()
    except UnicodeError:
        return UNCLEAR
    return named if len(named) <= MAX_NAMED_CHARS and _NAMED.fullmatch(named) else UNCLEAR


def decide_role(identity: Identity, rules: Sequence[RoleRule]) -> RoleName | None:
    """The highest role of the rules that match a person; None if none does."""
    roles = {rule.role for rule in rules if _matches(identity, rule.who)}
    return next((role for role in reversed(ROLES) if role in roles), None)


def is_of_group(rule: RoleRule) -> bool:
    """Return whether a rule is for the members of a group of the provider."""
    return rule.who.startswith(GROUP)


def _matches(identity: Identity, who: str) -> bool:
    if who == "*":
        return True
    if who.startswith(GROUP):
        return who.removeprefix(GROUP) in identity.groups
    email = (identity.email or "").lower()
    # The whole domain: `@example.org` is not that of `ana@evil-example.org`, nor of a second `@`.
    return email.rpartition("@")[2] == who[1:] if who.startswith("@") else email == who
