"""The result of a tool: its parts as records, and as the text that the model receives.

Source: MCP specification 2025-11-25, tools, "Tool result".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import mcp_types
from pydantic import TypeAdapter, ValidationError

from mosaico.harness.mcp.config import MAX_MODEL_CHARS
from mosaico.harness.mcp.types import Content, ContentKind
from mosaico.llm.conversation import Image

IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_IMAGE_CHARS: Final = 5 * 1024 * 1024  # in Base64; the limit of the Messages API
EMPTY_RESULT_TEXT: Final = "(the tool returned nothing)"
_BLOCK: Final[TypeAdapter[mcp_types.ContentBlock]] = TypeAdapter(mcp_types.ContentBlock)


def parse_result(result: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """The result of a call as its server wrote it; parts that are invalid are left out.

    Raises ValidationError when no part is valid.
    """
    try:
        return mcp_types.CallToolResult.model_validate(result, by_name=False)
    except ValidationError:
        content = result.get("content")
        blocks = (
            [block for block in content if _is_block(block)] if isinstance(content, list) else []
        )
        structured = result.get("structuredContent")
        if not blocks and structured is None:
            raise
        valid = {"content": blocks, "isError": result.get("isError") is True}
        if structured is not None:
            valid["structuredContent"] = structured
        return mcp_types.CallToolResult.model_validate(valid, by_name=False)


def _is_block(value: object) -> bool:
    try:
        _BLOCK.validate_python(value, by_name=False)
    except ValidationError:
        return False
    return True


def parse_contents(result: mcp_types.CallToolResult) -> tuple[Content, ...]:
    """The parts of a result in order; structured content is the last part."""
    parts = [_parse_block(block) for block in result.content]
    if result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
        parts.append(Content(kind=ContentKind.STRUCTURED, text=text, size=len(text.encode())))
    return tuple(parts)


def render_text(contents: Sequence[Content]) -> str:
    """A result as text for the model.

    Text is unchanged; images, audio and binary resources become their type and size in brackets.
    Structured content is left out where a text repeats it, as servers should. A result without
    parts becomes `EMPTY_RESULT_TEXT`.
    """
    texts = [content.text for content in contents if content.kind is ContentKind.TEXT]
    parts = [
        content
        for content in contents
        if content.kind is not ContentKind.STRUCTURED or not _is_repeated(content, texts)
    ]
    return "\n".join(map(_render_part, parts)) if parts else EMPTY_RESULT_TEXT


def describe_contents(contents: Sequence[Content]) -> tuple[Content, ...]:
    """The types and sizes of the parts, without the texts that `render_text` shows.

    A result of 10 MB would otherwise be stored twice.
    """
    return tuple(replace(content, text=None, size=_size(content)) for content in contents)


def _is_repeated(structured: Content, texts: Sequence[str | None]) -> bool:
    """Return whether a text is the same JSON, in any form."""
    for text in texts:
        try:
            if json.loads(text or "") == json.loads(structured.text or ""):
                return True
        except (ValueError, RecursionError):
            continue
    return False


def _size(content: Content) -> int | None:
    is_text = content.text is not None and content.kind is not ContentKind.RESOURCE_LINK
    return len((content.text or "").encode("utf-8", "replace")) if is_text else content.size


def images_for_model(contents: Sequence[Content]) -> tuple[Image, ...]:
    """The images that model APIs take: of a known format and size."""
    return tuple(
        Image(media_type=content.mime_type, data=content.data)
        for content in contents
        if content.data is not None
        and content.mime_type in IMAGE_TYPES
        and len(content.data) <= MAX_IMAGE_CHARS
    )


def truncate(text: str, limit: int = MAX_MODEL_CHARS) -> str:
    """The text up to `limit` characters, with a note about the rest."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[{len(text) - limit} more characters omitted]"


def _parse_block(block: mcp_types.ContentBlock) -> Content:
    match block:
        case mcp_types.TextContent():
            return Content(kind=ContentKind.TEXT, text=block.text)
        case mcp_types.ImageContent():
            image = _binary_content(ContentKind.IMAGE, block.data, block.mime_type)
            return replace(image, data=block.data)
        case mcp_types.AudioContent():
            return _binary_content(ContentKind.AUDIO, block.data, block.mime_type)
        case mcp_types.ResourceLink():
            return Content(
                kind=ContentKind.RESOURCE_LINK,
                text=str(block.uri),
                mime_type=block.mime_type,
                size=block.size,
            )
        case mcp_types.EmbeddedResource():
            return _resource_content(block.resource)


def _resource_content(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> Content:
    if isinstance(resource, mcp_types.TextResourceContents):
        return Content(
            kind=ContentKind.RESOURCE,
            text=resource.text,
            mime_type=resource.mime_type,
            size=len(resource.text.encode()),
        )
    return _binary_content(ContentKind.RESOURCE, resource.blob, resource.mime_type)


def _binary_content(kind: ContentKind, base64: str, mime_type: str | None) -> Content:
    size = 3 * len(base64) // 4 - base64[-2:].count("=")
    return Content(kind=kind, mime_type=mime_type, size=size)


def _render_part(content: Content) -> str:
    if content.text is not None and content.kind is not ContentKind.RESOURCE_LINK:
        return content.text
    details = [
        str(content.kind).replace("_", " "),
        content.text,
        content.mime_type,
        None if content.size is None else f"{content.size} bytes",
    ]
    return f"[{', '.join(detail for detail in details if detail)}]"
