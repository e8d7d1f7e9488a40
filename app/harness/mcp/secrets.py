"""`${NAME}` and `${NAME:-default}` in the configuration of a benchmark, and where values come from."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.core.errors import AppError
from app.harness.mcp.yaml_text import MAX_BYTES, BadYaml, parse_yaml

NAME: Final = "bench-secrets.yaml"

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{[^}]*\}?")


class BadSecrets(AppError):
    """The file of secrets cannot be used; write it as `NAME: value`, one a line."""

    code = "bad-secrets-file"
    status = 422
    exit_code = 2


class NoSuchVariable(Exception):
    """A variable has no value and no default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The values of a secrets file; `looked` says where one was looked for."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    looked: tuple[Path, ...] = ()

    def where(self) -> str:
        return " or ".join(map(str, self.looked)) or NAME


def find_secrets(named: Path | None) -> Secrets:
    """The values of the file that was named, else of `config/bench-secrets.yaml`, else the user's.

    Raises: BadSecrets, also when a named file is missing. None of the others need be there.
    """
    if named is not None:
        if not named.exists():
            raise BadSecrets(f"{named} does not exist", hint="name a file that can be read")
        return read_secrets(named)
    places = secrets_places()
    found = next((place for place in places if place.exists()), None)
    return Secrets(looked=places) if found is None else read_secrets(found)


def secrets_places() -> tuple[Path, ...]:
    """Where a file of secrets is looked for: in the project, then of the user."""
    import platformdirs

    return (Path("config") / NAME, Path(platformdirs.user_config_dir("mosaico")) / NAME)


def read_secrets(path: Path) -> Secrets:
    """The values of a file. What stands in it is never part of an error. Raises BadSecrets."""
    try:
        with path.open("rb") as file:
            document = parse_yaml(file.read(MAX_BYTES + 1), only_texts=True)
    except OSError as error:
        raise BadSecrets(
            f"{path} cannot be read: {error.strerror}", hint="let this user read it"
        ) from None
    except BadYaml as bad:
        raise BadSecrets(
            f"{path}:{bad.place.line}:{bad.place.column}: this is not `NAME: value`",
            hint="write one `NAME: value` a line, and quote values with signs in them",
        ) from None
    values = {} if document.value in (None, "") else document.value
    if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
        raise BadSecrets(f"{path} holds something else than `NAME: value`")
    return Secrets(values=values, looked=(path,))


def expand(text: str, find: Callable[[str], str | None]) -> str:
    """The text with its variables filled in once; `$${` stands for `${`.

    Raises: NoSuchVariable with what is missing or malformed.
    """

    def value_of(found: "re.Match[str]") -> str:
        name, has_default, default = found.group(1, 2, 3)
        if found.group() == "$${":
            return "${"
        if name is None:
            raise NoSuchVariable(f"{found.group()!r:.60} is not written as ${{NAME}}")
        value = find(name)
        if value is not None:
            return value
        if has_default:
            return str(default)
        raise NoSuchVariable(f"the variable {name} has no value")

    return _VARIABLE.sub(value_of, text)
