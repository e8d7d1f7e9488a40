"""Optimistic concurrency: ETag, If-Match and If-None-Match.

A tag is `"<revision>-<digest>"`. An edit compares only the revision, which counts edits. A read
compares the whole tag, because a view also changes without edits (the next start of a schedule).

Source: RFC 9110, sections 8.8.3 and 13.1; RFC 6585, section 3.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, cast

from fastapi import Depends, FastAPI, Header, Request, Response
from pydantic import BaseModel

from mosaico.core.errors import Conflict
from mosaico.core.web.response_headers import add_header

# Enough to distinguish the versions of one resource; the tag is sent with every read.
DIGEST_BYTES = 6

_TAG = re.compile(r'(W/)?"([^"]*)"')

IfMatchHeader = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1024,
        description="`ETag` of the version that was read; the edit is refused when the resource has changed"
        " since. `*` or no header: edit any version.",
    ),
]
IfNoneMatchHeader = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        max_length=1024,
        description="`ETag` of the known version; the response is 304 without a body while it is current.",
    ),
]


class HasRevision(Protocol):
    """The view of a resource that has revisions."""

    @property
    def revision(self) -> int: ...

    def model_dump_json(self) -> str: ...


V = TypeVar("V", bound=HasRevision)


class _EntityTag(NamedTuple):
    weak: bool
    text: str


class PreconditionFailed(Conflict):
    """The resource has changed since you read it; read it again, and send the new ETag as If-Match."""

    status = 412


class NotModified(Exception):
    """The version that the client has is current."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        super().__init__(tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class ETagCheck:
    """Adds the ETag to the response of a read: `return etag(view)`."""

    request: Request
    if_none_match: str | None = None

    def __call__(self, view: V) -> V:
        """Returns the view. Raises `NotModified` when the client has the current version."""
        tag = compute_etag(view)
        if self.if_none_match is not None and _contains_tag(self.if_none_match, tag):
            raise NotModified(tag)
        add_header(self.request.scope, "ETag", tag)
        return view


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionCheck:
    """Refuses an edit of a resource that has changed, and adds the ETag to the response.

    with res.db.begin() as session:
        match(queries.get_agent(session, agent_id, for_update=True).revision)
        return match.etag(view(service.change_agent(…)))
    """

    if_match: str | None
    etag: ETagCheck

    def __call__(self, revision: int) -> None:
        """Raises `PreconditionFailed`; the row must be locked already."""
        if self.if_match is not None and not _matches_revision(self.if_match, revision):
            raise PreconditionFailed


def compute_etag(view: HasRevision) -> str:
    """The ETag of a view, with its quotes."""
    digest = hashlib.sha256(view.model_dump_json().encode()).digest()[:DIGEST_BYTES]
    return f'"{view.revision}-{digest.hex()}"'


def find_etag(view: BaseModel) -> str | None:
    """The ETag of a view; None when it has no revisions."""
    # By name: `isinstance` with a protocol takes longer than the digest.
    has_revisions = "revision" in type(view).model_fields
    return compute_etag(cast("HasRevision", view)) if has_revisions else None


def install(app: FastAPI) -> None:
    """Respond with 304 when the client has the current version."""
    app.add_exception_handler(NotModified, _on_not_modified)


def document_conditions(operation: dict[str, Any], problem: Any) -> None:
    """Add the responses of conditional requests to the description of an operation."""
    headers = {
        parameter["name"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "header"
    }
    responses = operation["responses"]
    if "If-None-Match" in headers:
        responses["304"] = {"description": "Not Modified: your version is current"}
    if "If-Match" in headers:
        responses["412"] = problem(412, "the resource has changed since it was read")


async def _etag_check(request: Request, if_none_match: IfNoneMatchHeader = None) -> ETagCheck:
    return ETagCheck(request=request, if_none_match=if_none_match)


async def _revision_check(request: Request, if_match: IfMatchHeader = None) -> RevisionCheck:
    return RevisionCheck(if_match=if_match, etag=ETagCheck(request=request))


IfNoneMatch = Annotated[ETagCheck, Depends(_etag_check)]
IfMatch = Annotated[RevisionCheck, Depends(_revision_check)]


def _matches_revision(if_match: str, revision: int) -> bool:
    return if_match.strip() == "*" or any(
        # RFC 9110: If-Match compares strongly, so a weak tag never matches.
        not entity_tag.weak and entity_tag.text.partition("-")[0] == str(revision)
        for entity_tag in _parse_tags(if_match)
    )


def _contains_tag(if_none_match: str, tag: str) -> bool:
    return if_none_match.strip() == "*" or any(
        # If-None-Match compares weakly: a proxy that compresses responses makes tags weak.
        f'"{entity_tag.text}"' == tag
        for entity_tag in _parse_tags(if_none_match)
    )


def _parse_tags(header: str) -> Iterator[_EntityTag]:
    return (_EntityTag(bool(match[1]), match[2]) for match in _TAG.finditer(header))


def _on_not_modified(_request: Request, error: Exception) -> Response:
    assert isinstance(error, NotModified)
    return Response(status_code=304, headers={"ETag": error.tag})
