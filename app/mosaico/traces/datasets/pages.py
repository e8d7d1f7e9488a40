"""Pages of datasets whose items live here: the items of a version, and one item with its history."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.core.errors import Invalid, TooLarge, without_request
from mosaico.core.keyset import PageQuery
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.core.resources import Resources
from mosaico.core.schemas import ShortText, WireModel
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import FormFields, SentForm, check_form, local_path
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, list_in_api, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.core.web.uploads import DOCUMENT_BYTES
from mosaico.traces.datasets import queries, service
from mosaico.traces.datasets.errors import EditConflict
from mosaico.traces.datasets.items_file import item_of_content, read_items_file
from mosaico.traces.datasets.schemas import EditResult, ItemContent
from mosaico.traces.datasets.service import ItemEdit
from mosaico.traces.models import DatasetItemState

router = Router()

NAV: Final = "/datasets"
# On the page of a dataset; the API lists all of them.
SHOWN_VERSIONS: Final = PageQuery(20)
DatasetId = Annotated[str, Path(alias="setId")]
ItemName = Annotated[str, Query(max_length=1000)]
VersionField = Annotated[str, Query(max_length=20)]


class ItemsFileForm(WireModel):
    """The fields of the form that imports a file of items."""

    name: ShortText
    base_version: int = 0
    note: ShortText | None = None


@router.get("/datasets/{setId}/items", dependencies=READ)
def show_items(
    request: Request, dataset_id: DatasetId, res: Res, query: ListQuery, version: VersionField = ""
) -> Response:
    """The items of a version of a dataset, its versions, and the forms that change it."""
    return _render_items(request, res, dataset_id, query, version)


@router.get("/datasets/{setId}/item", dependencies=READ)
def show_item(request: Request, dataset_id: DatasetId, res: Res, item: ItemName = "") -> Response:
    """One item with its history, and the form that changes it."""
    return _render_item(request, res, dataset_id, item)


@router.post("/datasets/create", dependencies=RUN)
def create_dataset(form: SentForm, res: Res) -> Response:
    """Create a dataset without items."""
    checked = check_form(ItemsFileForm, {"name": form.text("name")})
    if checked.body is None:
        raise Invalid(f"the name {next(iter(checked.errors.values()))}")
    with res.db.begin() as session:
        dataset = service.find_or_create(session, checked.body.name)
    return see_other(path_of("datasets", dataset.id, "items"))


@router.post("/datasets/{setId}/items", dependencies=RUN)
def add_item(request: Request, dataset_id: DatasetId, form: SentForm, res: Res) -> Response:
    """Add an item: the next version."""
    checked = check_form(ItemContent, _content_of(form, form.text("id")))
    if checked.body is None:
        return _render_items(
            request, res, dataset_id, typed=form, errors=checked.errors, status=422
        )
    edit = ItemEdit(base_version=_base(form), items=[item_of_content(checked.body)])
    try:
        _store(request, res, dataset_id, edit)
    except EditConflict as error:
        errors = {"id": without_request(error.detail)}
        return _render_items(request, res, dataset_id, typed=form, errors=errors, status=409)
    return see_other(path_of("datasets", dataset_id, "items"))


@router.post("/datasets/{setId}/item", dependencies=RUN)
def change_item(request: Request, dataset_id: DatasetId, form: SentForm, res: Res) -> Response:
    """Change or retire an item: the next version. What was typed stays where somebody else was faster."""
    item_id = form.text("item")
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        state = queries.get_item(session, dataset, item_id, dataset.version)
    page = build_url(path_of("datasets", dataset_id, "item"), {"item": item_id})
    note = form.text("note") or None
    if form.text("retire"):
        edit = ItemEdit(base_version=_base(form), retired_ids=[item_id], note=note)
    else:
        checked = check_form(ItemContent, _changed_content(form, state))
        if checked.body is None:
            return _render_item(
                request, res, dataset_id, item_id, typed=form, errors=checked.errors, status=422
            )
        edit = ItemEdit(base_version=_base(form), items=[item_of_content(checked.body)], note=note)
    try:
        _store(request, res, dataset_id, edit)
    except EditConflict as error:
        errors = {"input": f"{without_request(error.detail)}. Save again to replace it."}
        return _render_item(
            request, res, dataset_id, item_id, typed=form, errors=errors, status=409
        )
    return see_other(local_path(form.text("next"), page))


@router.post("/datasets/import", dependencies=RUN)
async def import_items(request: Request, res: Res) -> Response:
    """Import the file of a form: the next version."""
    size = request.headers.get("content-length", "")
    if not size.isdecimal() or int(size[:20]) > DOCUMENT_BYTES:
        raise TooLarge(
            f"a form accepts files of up to {DOCUMENT_BYTES // 1024**2} MiB; divide the file"
        )
    async with request.form(max_files=1, max_fields=20) as form:
        return await run_in_threadpool(_import, request, res, form)


def _import(request: Request, res: Resources, form: FormData) -> Response:
    file = form.get("file")
    fields = {"name": form.get("name"), "note": form.get("note") or None}
    checked = check_form(ItemsFileForm, {**fields, "baseVersion": _number(form.get("baseVersion"))})
    if checked.body is None:
        name, error = next(iter(checked.errors.items()))
        raise Invalid(f"{name} {error}")
    if not isinstance(file, UploadFile) or not file.filename:
        raise Invalid("the file is missing; choose a file of items")
    with messages_for(UserInterface.UPLOAD_FORM):
        read = read_items_file(file.filename, file.file)
    edit = ItemEdit(
        base_version=checked.body.base_version,
        items=read.items,
        partial_ids=read.partial_ids,
        replaces_all="replace" in form,
        note=checked.body.note,
    )
    with res.db.begin() as session:
        dataset_id = service.find_or_create(session, checked.body.name).id
        service.edit_dataset(
            session, dataset_id, edit, by=get_caller(request).key_id, now=res.clock()
        )
    return see_other(path_of("datasets", dataset_id, "items"))


def _store(request: Request, res: Resources, dataset_id: str, edit: ItemEdit) -> EditResult:
    with res.db.begin() as session:
        return service.edit_dataset(
            session, dataset_id, edit, by=get_caller(request).key_id, now=res.clock()
        )


def _content_of(form: FormFields, item_id: str) -> dict[str, object]:
    return {
        "id": item_id,
        "input": _typed_text(form, "input", None),
        "expectedOutput": _typed_text(form, "expectedOutput", None),
    }


def _changed_content(form: FormFields, state: DatasetItemState) -> dict[str, object]:
    """An item after its form. Several expected answers, which the form does not show, count until the first one is changed."""
    expected = _typed_text(form, "expectedOutput", state.expected_output)
    has_others = expected == state.expected_output
    return {
        "id": state.item_id,
        "input": _typed_text(form, "input", state.input),
        "expectedOutput": expected,
        "expectedAny": state.expected_any if has_others else [],
        "expectedAll": state.expected_all if has_others else [],
        "tags": state.tags,
        # Those of an erased item say only that it was erased.
        "attributes": {} if state.input is None else state.attributes,
    }


def _typed_text(form: FormFields, name: str, stored: str | None) -> str | None:
    """The text of a field; the stored one if the browser has changed no more than line ends and spaces around it."""
    typed = form.text(name).replace("\r\n", "\n")
    if typed == (stored or "").replace("\r\n", "\n").strip():
        return stored
    return typed or None


def _base(form: FormFields) -> int:
    return _number(form.text("baseVersion"))


def _number(text: object) -> int:
    """The version of a hidden field, which the page has written."""
    if not isinstance(text, str) or not text.isdecimal():
        return 0
    return int(text[:15])


def _render_items(
    request: Request,
    res: Resources,
    dataset_id: str,
    query: PageQuery = PageQuery(),  # noqa: B008 - immutable
    version: str = "",
    *,
    typed: FormFields | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    if version and not version.isdecimal():
        raise Invalid(f"{version!r} is not a version; write a number, such as 3")
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        chosen = queries.choose_version(dataset, int(version[:15]) if version else None)
        page = queries.list_items_page(session, dataset, chosen, query)
        versions = queries.list_versions(session, dataset.id, SHOWN_VERSIONS)
    api = f"/datasets{path_of(dataset_id)}"
    return render_page(
        request, "dataset_items.html", title=f"{dataset.name} v{chosen}", nav=NAV, status=status,
        api=list_in_api(request, f"{api}/items", version=str(chosen)),
        api_parts={"dataset": path_of("datasets", dataset_id), "versions": f"{api}/versions"},
        steps=(Crumb("Datasets", NAV),), dataset=dataset, version=chosen, items=page.rows,
        versions=versions.rows, has_more_versions=versions.next_cursor is not None,
        typed={name: typed.text(name) if typed else "" for name in ("id", "input", "expectedOutput")},
        errors=errors or {}, next_cursor=page.next_cursor,
        export=f"/api/v1{api}/export",
        command=f"mosaico items import {shlex.quote(dataset.name)} questions.csv",
    )  # fmt: skip


def _render_item(
    request: Request,
    res: Resources,
    dataset_id: str,
    item_id: str,
    *,
    typed: FormFields | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        item = queries.get_item(session, dataset, item_id, dataset.version)
        history = queries.list_item_states(session, dataset_id, item_id, SHOWN_VERSIONS).rows
        versions = {
            row.version: queries.get_version(session, dataset_id, row.version) for row in history
        }
    shown = {"input": item.input, "expectedOutput": item.expected_output}
    api = f"/datasets{path_of(dataset_id)}"
    return render_page(
        request, "dataset_item.html", title=item_id, nav=NAV, status=status,
        api=build_url(f"{api}/item-history", {"itemId": item_id}),
        api_parts={"dataset": path_of("datasets", dataset_id)},
        steps=(
            Crumb("Datasets", NAV),
            Crumb(f"{dataset.name} v{dataset.version}", path_of("datasets", dataset_id, "items")),
        ),
        dataset=dataset, item=item, history=history, versions=versions,
        typed={name: typed.text(name) for name in shown} if typed else shown,
        errors=errors or {},
    )  # fmt: skip
