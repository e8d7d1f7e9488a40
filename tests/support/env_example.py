"""Writes `.env.example`: every setting with its description and default.

python -m tests.support.env_example
"""

from pathlib import Path
from typing import Final

from mosaico.core.environment import variable_of
from mosaico.core.import_settings import ImportSettings
from mosaico.core.settings import Settings

FILE: Final = Path(__file__).parents[2] / ".env.example"


def render_env_example() -> str:
    blocks = []
    limits = ImportSettings.model_fields
    fields = {name: field for name, field in Settings.model_fields.items() if name not in limits}
    for name, field in {**fields, **limits}.items():
        default = "" if field.default is None or field.default_factory else field.get_default()
        blocks.append(f"# {field.description}\n{variable_of(Settings, name)}={default}\n")
    return "\n".join(blocks)


if __name__ == "__main__":
    FILE.write_text(render_env_example())
