"""Files that follow from the code are those that `make generate` writes."""

import pytest

from tests.support.generated_files import BEGIN, END, stale_files, with_part

# It loads every module, and with them the SDKs of models.
pytestmark = pytest.mark.xdist_group("sdks of models")


def test_generated_files__are_those_of_the_code() -> None:
    """An intended change of the public package is also a line in CHANGELOG.md."""
    assert stale_files() == [], "run: make generate"


def test_page__keeps_what_is_written_by_hand() -> None:
    page = f"# A page\n\n{BEGIN}\nold\n\n{END}\nThe end.\n"
    assert with_part(page, "new\n") == page.replace("old", "new")
