"""The text of `.env.example`: every setting with its description and default."""

from mosaico.core.environment import variable_of
from mosaico.core.import_settings import ImportSettings
from mosaico.core.settings import Settings


def render_env_example() -> str:
    blocks = []
    limits = ImportSettings.model_fields
    fields = {name: field for name, field in Settings.model_fields.items() if name not in limits}
    for name, field in {**fields, **limits}.items():
        default = "" if field.default is None or field.default_factory else field.get_default()
        blocks.append(f"# {field.description}\n{variable_of(Settings, name)}={default}\n")
    return "\n".join(blocks)
