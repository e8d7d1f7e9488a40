"""What tools answer, as it is recorded and as a model reads it."""

import base64

import mcp_types
import pytest

from app.harness.mcp.tool_content import EMPTY_RESULT_TEXT, parse_contents, render_text, truncate
from app.harness.mcp.types import Content, ContentKind

PICTURE = base64.b64encode(b"\x89PNG...").decode()  # seven bytes


def result(*blocks: mcp_types.ContentBlock, **more: object) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult.model_validate({"content": list(blocks), **more})


def words(*blocks: mcp_types.ContentBlock, **more: object) -> str:
    return render_text(parse_contents(result(*blocks, **more)))


def test_texts_are_read_one_below_the_other() -> None:
    first, second = mcp_types.TextContent(text="one"), mcp_types.TextContent(text="two")
    assert words(first, second) == "one\ntwo"


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"abcd"])
def test_of_an_image_its_type_and_size_are_known(data: bytes) -> None:
    image = mcp_types.ImageContent(data=base64.b64encode(data).decode(), mime_type="image/png")
    [content] = parse_contents(result(image))
    assert content == Content(kind=ContentKind.IMAGE, mime_type="image/png", size=len(data))
    assert words(image) == f"[image, image/png, {len(data)} bytes]"


def test_a_sound_is_named_and_a_link_followed_by_nobody() -> None:
    sound = mcp_types.AudioContent(data=PICTURE, mime_type="audio/wav")
    link = mcp_types.ResourceLink(name="log", uri="demo://log/1")
    assert words(sound, link) == "[audio, audio/wav, 7 bytes]\n[resource link, demo://log/1]"


def test_an_embedded_text_is_read_and_embedded_bytes_are_named() -> None:
    text = mcp_types.EmbeddedResource(
        resource=mcp_types.TextResourceContents(uri="demo://a", text="inside", mime_type="text/x")
    )
    blob = mcp_types.EmbeddedResource(
        resource=mcp_types.BlobResourceContents(uri="demo://b", blob=PICTURE)
    )
    assert words(text, blob) == "inside\n[resource, 7 bytes]"


def test_what_is_structured_is_read_where_no_text_says_the_same() -> None:
    both = parse_contents(result(mcp_types.TextContent(text="n is 1"), structuredContent={"n": 1}))
    assert [each.kind for each in both] == [ContentKind.TEXT, ContentKind.STRUCTURED]
    assert render_text(both) == "n is 1"
    assert words(structuredContent={"n": 1}) == '{"n": 1}'


def test_an_empty_result_stays_empty_and_is_said_to_be_so() -> None:
    assert parse_contents(result()) == ()
    assert words() == EMPTY_RESULT_TEXT
    assert words(mcp_types.TextContent(text="")) == ""


def test_a_long_text_is_cut_and_tells_how_much_is_missing() -> None:
    assert truncate("abcdef", 6) == "abcdef"
    assert truncate("abcdef", 4) == "abcd\n[2 more characters omitted]"
