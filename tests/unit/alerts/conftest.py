"""Tables of simulated series are printed."""

import pytest

from tests.support.series_campaign import Show


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Prints a line of a table, also when pytest captures the output."""

    def print_line(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)  # noqa: T201 - the table of `make prove`

    return print_line
