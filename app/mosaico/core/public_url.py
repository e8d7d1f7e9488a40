"""The address under which people reach the service: MOSAICO_PUBLIC_URL, which links begin with."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from mosaico.core.environment import EnvironmentSettings
from mosaico.core.url_syntax import find_url_flaw


def _check_public_url(value: str | None) -> str | None:
    if value is None:
        return None
    base = value.removesuffix("/")
    if flaw := find_url_flaw(base):
        raise ValueError(f"{flaw}; write it as https://mosaico.example.org")
    # The service has no pages below a path.
    if base.count("/") > len("//") or "?" in base or "#" in base:
        raise ValueError(
            "has a path, a query or a fragment; write it as https://mosaico.example.org"
        )
    return base


PublicUrl = Annotated[
    str | None,
    AfterValidator(_check_public_url),
    Field(
        description="Base URL of links in notifications and of commands, without a path:"
        " https://mosaico.example.org. Empty: the address that the API listens on.",
    ),
]


class _LinkSettings(EnvironmentSettings):
    """The setting of links alone, which is valid also where another one is wrong."""

    public_url: PublicUrl = None


def find_public_url() -> str | None:
    """MOSAICO_PUBLIC_URL, if it is set and valid, whatever the other settings are."""
    try:
        return _LinkSettings().public_url
    except ValidationError:
        return None
