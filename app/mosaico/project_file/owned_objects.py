"""The objects that belong to project files: their wire format, reads and writes."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.core.errors import Conflict, NotFound
from mosaico.core.ids import new_id
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.schemas import Identifier, JsonObject, ShortText, WireModel
from mosaico.project_file.kinds import ObjectKind
from mosaico.project_file.models import ProjectObject

MAX_PATH_CHARS = 700


class UnknownProjectObject(NotFound):
    """No object of a project file has this ID; GET /api/v1/project-objects lists them."""


class ObjectOfOtherFile(Conflict):
    """Another place of a project file has this object, or this place has another object; list the objects of the file again."""


class ProjectObjectBody(WireModel):
    """An object of a service, and its place in a project file."""

    file: Annotated[ShortText, Field(description="Name of the project file.", examples=["support"])]
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_PATH_CHARS,
            description="Place of the object in the file.",
            examples=["benchmarks/nightly/rules/quality-drop"],
        ),
    ]
    kind: ObjectKind
    object_id: Annotated[Identifier, Field(description="ID of the object.", examples=["nightly"])]
    wanted: JsonObject = Field(
        default_factory=dict, description="Fields as the file has them; secrets as digests."
    )
    shown: Annotated[
        JsonObject | None,
        Field(description="Fields as the service showed them after the last change by the file."),
    ] = None


class ProjectObjectView(ProjectObjectBody):
    """An object that belongs to a project file. `shown` is null until the object exists."""

    id: str
    created_at: datetime
    updated_at: datetime


def list_project_objects(session: Session, query: PageQuery) -> PageRows[ProjectObject]:
    """The objects of every file, newest first."""
    return select_page(
        session,
        select(ProjectObject),
        keys=[ProjectObject.created_at, ProjectObject.id],
        query=query,
    )


def save_project_object(session: Session, body: ProjectObjectBody, now: datetime) -> ProjectObject:
    """Record what a file applied to an object; an object that another file had belongs to this one afterwards.

    Raises: `ObjectOfOtherFile` if its place has another object already.
    """
    statement = select(ProjectObject).where(
        ProjectObject.kind == body.kind, ProjectObject.object_id == body.object_id
    )
    row = session.scalar(statement.with_for_update())
    if row is None:
        row = ProjectObject(id=new_id(), created_at=now)
        session.add(row)
    for name, value in body:
        setattr(row, name, value)
    row.updated_at = now
    try:
        session.flush()
    except IntegrityError:
        raise ObjectOfOtherFile from None
    return row


def forget_project_object(session: Session, record_id: str) -> None:
    """The object belongs to no file any more; it stays. Raises: `UnknownProjectObject`."""
    row = UnknownProjectObject.unless(session.get(ProjectObject, record_id))
    session.delete(row)
    session.flush()
