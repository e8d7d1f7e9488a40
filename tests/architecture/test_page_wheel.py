"""The budget of the wheel: what the pages add to it."""

from hatch_build import shorten_template
from mosaico.core.web.pages import TEMPLATES, environment
from tests.support.page_wheel import measure_pages_in_wheel

MAX_BYTES = 150_000


def test_wheel__pages_add_no_more_than_their_budget() -> None:
    sizes = measure_pages_in_wheel()
    assert {"mosaico/core/web/templates.bz2", "mosaico/overview/pages.py"} <= sizes.keys()
    assert not any(name.endswith(".html") for name in sizes)
    assert sum(sizes.values()) <= MAX_BYTES


def test_shorten_template__renders_the_same_pages() -> None:
    for name in environment().list_templates():
        written = (TEMPLATES / name).read_text("utf-8")
        assert list_parts(shorten_template(written)) == list_parts(written), name


def list_parts(template: str) -> list[tuple[str, str]]:
    """The parts of a template that make its page; texts with a comment between them are one part."""
    parts = list[tuple[str, str]]()
    for token in environment().lexer.tokenize(template):
        text = "" if token.type == "block_end" else str(token.value)
        if parts and token.type == parts[-1][0] == "data":
            text = parts.pop()[1] + text
        parts.append((token.type, text))
    return parts
