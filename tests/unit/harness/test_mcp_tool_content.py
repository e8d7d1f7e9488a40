"""Tool results: recorded parts, and the text for the model."""

import base64

import mcp_types
import pytest

from mosaico.harness.mcp.tool_content import (
    EMPTY_RESULT_TEXT,
    parse_contents,
    render_text,
)
from mosaico.harness.mcp.types import Content, ContentKind

PICTURE = base64.b64encode(b"\x89PNG...").decode()  # seven bytes


def result(*blocks: mcp_types.ContentBlock, **more: object) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult.model_validate({"content": list(blocks), **more})


def words(*blocks: mcp_types.ContentBlock, **more: object) -> str:
    return render_text(parse_contents(result(*blocks, **more)))


# One size of each padding of Base64, from which the size is computed.
@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"abcd"])
def test_tool_content__image_becomes_type_and_size(data: bytes) -> None:
    image = mcp_types.ImageContent(data=base64.b64encode(data).decode(), mime_type="image/png")
    [content] = parse_contents(result(image))
    assert content == Content(kind=ContentKind.IMAGE, mime_type="image/png", size=len(data))
    assert words(image) == f"[image, image/png, {len(data)} bytes]"


def test_tool_content__embedded_text_is_read_and_bytes_are_described() -> None:
    text = mcp_types.EmbeddedResource(
        resource=mcp_types.TextResourceContents(uri="demo://a", text="inside", mime_type="text/x")
    )
    blob = mcp_types.EmbeddedResource(
        resource=mcp_types.BlobResourceContents(uri="demo://b", blob=PICTURE)
    )
    assert words(text, blob) == "inside\n[resource, 7 bytes]"


def test_tool_content__structured_content_is_used_without_text() -> None:
    # Servers send structured content as text as well: the model would read it twice.
    both = parse_contents(result(mcp_types.TextContent(text="n is 1"), structuredContent={"n": 1}))
    assert [content.kind for content in both] == [ContentKind.TEXT, ContentKind.STRUCTURED]
    assert render_text(both) == "n is 1"
    assert words(structuredContent={"n": 1}) == '{"n": 1}'


def test_tool_content__empty_result_has_a_fixed_text() -> None:
    assert parse_contents(result()) == ()
    assert words() == EMPTY_RESULT_TEXT
    assert words(mcp_types.TextContent(text="")) == ""
