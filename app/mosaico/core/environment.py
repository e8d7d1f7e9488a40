"""Reads settings from the environment and names the wrong ones."""

from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from mosaico.core.errors import Misconfigured


class EnvironmentSettings(BaseSettings):
    """Settings with one field per environment variable; the file `.env` of the working directory counts, too."""

    model_config = SettingsConfigDict(
        env_prefix="MOSAICO_", env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )


Loaded = TypeVar("Loaded", bound=EnvironmentSettings)


def load(settings: type[Loaded]) -> Loaded:
    """Read the environment.

    Raises: `Misconfigured`, which names each wrong variable and never its value.
    """
    try:
        return settings()
    except ValidationError as error:
        wrong = [
            f"{variable_of(settings, str(item['loc'][0]).lower())}: {item['msg']}"
            for item in error.errors()
        ]
        raise Misconfigured(f"wrong settings: {'; '.join(wrong)}") from None


def variable_of(settings: type[EnvironmentSettings], field: str) -> str:
    """The environment variable that sets a field."""
    alias = settings.model_fields[field].validation_alias
    return alias if isinstance(alias, str) else f"MOSAICO_{field.upper()}"
