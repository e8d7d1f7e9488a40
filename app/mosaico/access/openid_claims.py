"""The claims of the tokens of a provider: their types are checked before anything reads them.

Sources: OpenID Connect Core 1.0 (2, 5.3), Back-Channel Logout 1.0 (2.4); RFC 7519 (4.1).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from mosaico.core.text import unstorable_reason

MAX_CHARS: Final = 1024
# The year 9999: beyond it a time is not one.
MAX_SECONDS: Final = 253_402_300_800


def _require_storable(claim: str) -> str:
    flaw = unstorable_reason(claim)
    if flaw is not None:
        raise PydanticCustomError("unstorable_text", "{flaw}", {"flaw": flaw})
    return claim


Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARS), AfterValidator(_require_storable)]
# A number of RFC 7519 may have decimals.
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]


class IdClaims(BaseModel):
    """The claims of an ID token that decide who it is about."""

    model_config = ConfigDict(strict=True)

    iss: Text
    sub: Text
    aud: Text | list[Text]
    exp: Seconds
    iat: Seconds
    nonce: Text
    nbf: Seconds | None = None
    azp: Text | None = None
    auth_time: Seconds | None = None
    at_hash: Text | None = None
    sid: Text | None = None


class LogoutClaims(BaseModel):
    """The claims of a logout token; `sub` or `sid` says whose sessions end."""

    model_config = ConfigDict(strict=True)

    iss: Text
    aud: Text | list[Text]
    iat: Seconds
    events: dict[str, Any]
    exp: Seconds | None = None
    nbf: Seconds | None = None
    sub: Text | None = None
    sid: Text | None = None


Claims = TypeVar("Claims", bound=BaseModel)


class WrongClaims(Exception):
    """A claim is missing or of another type; the message names it."""


def check_claims(model: type[Claims], claims: Mapping[str, Any]) -> Claims:
    """The claims of a token, with the types of the model. Raises: `WrongClaims`."""
    try:
        return model.model_validate(dict(claims))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # Of an audience in a list, the claim alone: the rest is its place in the type.
        raise WrongClaims(f"the claim {first['loc'][0]} is not valid: {first['msg']}") from None


def texts_of(claim: object) -> frozenset[str]:
    """The texts of a claim that is a text or a list of them; none of any other."""
    if isinstance(claim, str):
        return frozenset({claim})
    return frozenset(map(str, claim)) if isinstance(claim, list) else frozenset()


def with_user_info(claims: Mapping[str, Any], user_info: Mapping[str, Any]) -> dict[str, Any]:
    """The claims of an ID token with those that only the UserInfo endpoint has."""
    merged = {**user_info, **claims}
    if merged.get("email") != user_info.get("email") and "email_verified" not in claims:
        # What is verified there is another address.
        merged.pop("email_verified", None)
    return merged


def verified_email(claims: Mapping[str, Any]) -> str | None:
    """The address, if the provider calls it verified: unverified ones are anybody's, and a provider with open
    registration would give away the roles of others.
    """
    email = claims.get("email")
    is_usable = isinstance(email, str) and unstorable_reason(email) is None
    return email or None if is_usable and claims.get("email_verified") is True else None


def display_name(claims: Mapping[str, Any]) -> str:
    """The name that pages show; the subject where the provider sends no other."""
    names = (claims.get(name) for name in ("name", "preferred_username", "email"))
    return next((name for name in names if isinstance(name, str) and name), str(claims["sub"]))
