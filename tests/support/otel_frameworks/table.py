"""The table of frameworks in docs/otel-mapping.md, from the fixtures of the tests."""

from typing import Final

from tests.support.otel_frameworks.fixtures import FIXTURES
from tests.support.otel_frameworks.form import Fixture

_HEAD: Final = (
    "| Framework | Version | Spans | Input | Output | Tokens | Cached tokens | Cost | Tool calls | Session |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)
_CACHED: Final = {None: "–", "inside": "in the input", "added": "added to the input"}


def render_table() -> str:
    return _HEAD + "".join(sorted(map(_row, FIXTURES), key=str.casefold))


def _row(fixture: Fixture) -> str:
    expected = fixture.expected
    version = f"{fixture.version}, {fixture.note}" if fixture.note else fixture.version
    cells = [
        fixture.framework,
        version,
        fixture.origin,
        *(_mark(value) for value in (expected.input, expected.output, expected.tokens[0])),
        _CACHED[expected.cached],
        *(_mark(value) for value in (expected.cost, expected.tools or None, expected.session)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _mark(value: object) -> str:
    return "–" if value is None else "yes"
