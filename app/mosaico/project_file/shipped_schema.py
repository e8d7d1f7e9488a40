"""The JSON Schema of project files as the package contains it: `make generate` writes it."""

from pathlib import Path
from typing import Final

SCHEMA_FILE: Final = Path(__file__).with_name("mosaico.schema.json")
SCHEMA_PATH: Final = "/schemas/mosaico.json"


def schema_line(service_url: str | None) -> str:
    """The first line of a file, which tells editors the schema: of a service, otherwise of this installation."""
    address = f"{service_url.rstrip('/')}{SCHEMA_PATH}" if service_url else SCHEMA_FILE.as_uri()
    return f"# yaml-language-server: $schema={address}"
