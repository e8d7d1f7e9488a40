"""How people log in: the OpenID Connect provider of the operator, and who gets which role."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mosaico.core.encryption import Secret

ROLES: Final = ("read", "run", "admin")
RULE_FORM: Final = "write it as ana@example.org=admin, @example.org=read, group:developers=run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRule:
    """Who gets a role: an address (`ana@example.org`), a domain (`@example.org`), a group (`group:developers`) or
    everybody whom the provider knows (`*`).
    """

    who: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings:
    """A client of an OpenID Connect provider; `groups_claim` names the claim with the groups of a person."""

    issuer: str
    client_id: str
    client_secret: Secret | None = None
    scopes: str = "openid email profile"
    groups_claim: str = "groups"

    @property
    def host(self) -> str:
        """The name of the provider on the login page."""
        return urlsplit(self.issuer).hostname or self.issuer


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """The ways in which people log in besides API keys; `header` is the one in which a trusted proxy names them."""

    provider: OpenIdSettings | None = None
    header: str | None = None
    rules: Sequence[RoleRule] = ()

    @property
    def is_open(self) -> bool:
        """Whether people can log in without a key."""
        return self.provider is not None or self.header is not None


KEYS_ONLY: Final = LoginSettings()


def parse_role_rules(text: str) -> tuple[RoleRule, ...]:
    """Parse `ana@example.org=admin, @example.org=read, group:developers=run`. Raises: `ValueError`."""
    return tuple(_parse_rule(part.strip()) for part in text.split(",") if part.strip())


def _parse_rule(text: str) -> RoleRule:
    who, equals, role = (part.strip() for part in text.rpartition("="))
    is_known = who == "*" or "@" in who or (who.startswith("group:") and who != "group:")
    if not equals or role not in ROLES or not is_known:
        raise ValueError(f"has no rule in {text!r}; {RULE_FORM}")
    return RoleRule(who=who if who.startswith("group:") else who.lower(), role=role)
