"""HTTP routes of project files: their schema, and the objects that belong to them."""

from typing import Annotated

from fastapi import Path, Response
from fastapi.responses import FileResponse
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN
from mosaico.access.idempotency import Idempotent
from mosaico.core.schemas import Page, view_of_row
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.project_file.models import ProjectObject
from mosaico.project_file.owned_objects import (
    ProjectObjectBody,
    ProjectObjectView,
    forget_project_object,
    list_project_objects,
    save_project_object,
)
from mosaico.project_file.shipped_schema import SCHEMA_FILE

router = Router(prefix="/project-objects", tags=["project files"], dependencies=ADMIN)
schema_router = Router(prefix="/schemas", tags=["project files"])

RecordId = Annotated[str, Path(alias="projectObjectId")]


class _SchemaResponse(FileResponse):
    media_type = "application/schema+json"


@schema_router.get(
    "/mosaico.json",
    response_class=_SchemaResponse,
    responses={200: {"content": {_SchemaResponse.media_type: {"schema": {"type": "object"}}}}},
)
def get_project_file_schema() -> _SchemaResponse:
    """The JSON Schema of `mosaico.yaml`, for editors."""
    return _SchemaResponse(SCHEMA_FILE, media_type=_SchemaResponse.media_type)


@router.get("")
def list_objects_of_files(res: Res, page: PageParams) -> Page[ProjectObjectView]:
    """List the objects that belong to project files, newest first. `mosaico apply` reads them."""
    with res.db.read() as session:
        return list_project_objects(session, page).to_page(_view)


@router.post("", status_code=201, response_model=ProjectObjectView)
def save_object_of_file(body: ProjectObjectBody, once: Idempotent, res: Res) -> Response:
    """Record that an object belongs to a project file, and what the file applied to it.

    `mosaico apply` calls it before and after each change. The object itself stays as it is.
    """

    def save(session: Session) -> ProjectObjectView:
        return _view(save_project_object(session, body, res.clock()))

    return once(body, save)


@router.delete("/{projectObjectId}", status_code=204)
def forget_object_of_file(record_id: RecordId, res: Res) -> None:
    """Let an object belong to no project file; the object itself stays."""
    with res.db.begin() as session:
        forget_project_object(session, record_id)


def _view(row: ProjectObject) -> ProjectObjectView:
    return view_of_row(ProjectObjectView, row)
