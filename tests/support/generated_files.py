"""Every file that follows from the code: `make generate` writes them, and a test compares them.

A page of the documentation is written by hand, and the part between two marks is generated.
"""

import json
from pathlib import Path
from typing import Final

from mosaico.main import RESPONSE_EXAMPLES
from mosaico.project_file.schema import format_schema
from mosaico.project_file.shipped_schema import SCHEMA_FILE
from tests.support import cli_reference, generated_tables, public_package, statistics_pictures
from tests.support.env_example import render_env_example
from tests.support.otel_frameworks.table import render_table
from tests.support.response_examples import format_examples, record, updated_examples, write_demo

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
COMMANDS: Final = DOCS / "cli"
PICTURES: Final = DOCS / "pictures"
BEGIN: Final = "<!-- `make generate` writes this part. -->\n"
END: Final = "<!-- End of the generated part. -->\n"


def generated_files() -> dict[Path, str]:
    """The text of each file, except the examples of responses, for which a service must run."""
    parts = {
        "cli.md": cli_reference.list_of_commands(),
        "deployment.md": generated_tables.retention_table(),
        "errors.md": generated_tables.error_table(),
        "models.md": generated_tables.model_table(),
        "otel-mapping.md": render_table(),
    }
    return {
        ROOT / ".env.example": render_env_example(),
        SCHEMA_FILE: format_schema(),
        public_package.SURFACE_FILE: "\n".join(public_package.surface()) + "\n",
        **{DOCS / name: with_part((DOCS / name).read_text(), part) for name, part in parts.items()},
        **{COMMANDS / name: page for name, page in cli_reference.pages().items()},
        **{PICTURES / name: chart for name, chart in statistics_pictures.charts().items()},
    }


def with_part(page: str, part: str) -> str:
    """A page with this text between its marks. Raises: `ValueError` for a page without them."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{part.strip()}\n\n{END}{after}"


def stale_files() -> list[Path]:
    """The files whose text is another one, and the pages of commands that are gone."""
    files = generated_files()
    return [
        *(path for path, text in files.items() if not path.exists() or path.read_text() != text),
        *(path for path in COMMANDS.iterdir() if path not in files),
    ]


def write_files() -> None:
    # Only here: it needs a browser's library.
    from tests.support.page_pictures import served

    files = generated_files()
    for path in stale_files():
        if path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    with served(lambda _: None) as service:
        write_demo(service)
        examples = updated_examples(json.loads(RESPONSE_EXAMPLES.read_text()), record(service))
    RESPONSE_EXAMPLES.write_text(format_examples(examples))


if __name__ == "__main__":
    write_files()
