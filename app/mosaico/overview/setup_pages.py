"""The guided page "Set up a nightly": from a file or a source to a schedule and a tested message."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Path as PathParameter
from fastapi import Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from mosaico.access.deps import ADMIN
from mosaico.agents.queries import list_agent_names
from mosaico.core.clock import zone_names
from mosaico.core.errors import Conflict, Invalid, NotFound, TooLarge, without_request
from mosaico.core.keyset import PageQuery
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import (
    FormFields,
    SentForm,
    check_form,
    errors_by_field,
)
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, public_url, reader_zone, render_page, see_other
from mosaico.core.web.routes import Router
from mosaico.metrics.measures import UNREAD, Measure, list_measures
from mosaico.notifications import service as notifications
from mosaico.notifications.endpoints import save_endpoint
from mosaico.notifications.queries import get_endpoint
from mosaico.notifications.registry import CHANNELS, require_target
from mosaico.notifications.types import DeliveryTarget
from mosaico.overview import setup_service
from mosaico.overview.dataset_pages import MAX_FORM_BYTES, store_file
from mosaico.overview.models import SetupDraft
from mosaico.overview.setup_fields import (
    DAYS,
    DEFAULTS,
    DIRECTIONS,
    LISTS,
    LOCAL,
    Setup,
    list_sources,
)
from mosaico.overview.setup_message import write_bad_night
from mosaico.run_store.rules import TriggerType
from mosaico.runs.service import create_run
from mosaico.schedules.queries import database_now
from mosaico.schedules.schedule_view import preview_typed
from mosaico.traces.files.configured_limits import read_limits
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.models import LocalDataset
from mosaico.traces.types import Trace
from mosaico.traces.upload_errors import FileReaderBusy, UploadReaderLost
from mosaico.traces.uploads.queries import get_local_dataset, list_uploaded_traces
from mosaico.traces.uploads.schemas import UploadForm

router = Router()

NAV: Final = "/schedules"
SETUP: Final = "/setup"
STEPS: Final = (Crumb("Schedules", NAV),)
# Read to see which measures have values; three of them are shown.
SAMPLE, SHOWN_ROWS = 100, 3
SHOWN_DRAFTS: Final = 10
# The button of the form, and its choices; those about an address end with its ID.
DO = "do"

DraftId = Annotated[str, PathParameter(alias="draftId")]


@router.get("/setup", dependencies=ADMIN)
def show_setup(request: Request, res: Res) -> Response:
    """The first step of a new setup, and the drafts."""
    return _render_start(request, res)


@router.post("/setup", dependencies=ADMIN)
async def begin_setup(request: Request, res: Res) -> Response:
    """Store the file of a setup, or choose a source, and show the next steps."""
    size = request.headers.get("content-length", "")
    if not size.isdecimal() or int(size[:20]) > MAX_FORM_BYTES:
        raise TooLarge(f"a form accepts files of up to {MAX_FORM_BYTES // 1024**2} MiB; upload a larger one with"
                       " `mosaico datasets upload`")  # fmt: skip
    async with request.form(max_files=1, max_fields=20) as form:
        return await run_in_threadpool(_begin, request, res, form)


@router.get("/setup/{draftId}", dependencies=ADMIN)
def show_setup_draft(request: Request, draft_id: DraftId, res: Res) -> Response:
    """All steps of a setup with what was typed."""
    return _render(request, res, draft_id)


@router.post("/setup/{draftId}", dependencies=ADMIN)
def change_setup_draft(request: Request, draft_id: DraftId, form: SentForm, res: Res) -> Response:
    """Keep what was typed, and do what its button says: send a test message, or create everything."""
    action, _, endpoint_id = form.text(DO).partition(":")
    with res.db.begin() as session:
        draft = setup_service.get_draft(session, draft_id, for_update=True)
        setup_service.change_draft(draft, _typed(form), res.clock())
    try:
        if action == "add":
            _add_address(res, draft_id, form)
        elif action == "test":
            with res.db.begin() as session:
                notifications.publish_test(session, get_endpoint(session, endpoint_id))
        elif action == "remove":
            _remove_address(res, draft_id, endpoint_id)
        elif action in {"start", "run"}:
            return see_other(_create(request, res, draft_id, with_run=action == "run"))
    except (Invalid, Conflict, NotFound) as error:
        errors = errors_by_field(error.errors) or {action: without_request(error.detail)}
        return _render(request, res, draft_id, errors=errors, status=error.status)
    return see_other(path_of("setup", draft_id))


@router.post("/datasets/{datasetId}/setup", dependencies=ADMIN)
def begin_setup_of_dataset(
    request: Request, dataset_id: Annotated[str, PathParameter(alias="datasetId")], res: Res
) -> Response:
    """Set up a nightly for an upload."""
    with res.db.begin() as session:
        dataset = get_local_dataset(session, dataset_id)
        fields = {
            "source": LOCAL, "datasetId": dataset.id, "datasetRef": dataset.name,
            "timezone": reader_zone(request).key, "agentId": dataset.agent_id or "",
        }  # fmt: skip
        draft_id = setup_service.create_draft(session, fields).id
    return see_other(path_of("setup", draft_id))


@router.post("/setup/{draftId}/delete", dependencies=ADMIN)
def delete_setup_draft(draft_id: DraftId, res: Res) -> Response:
    """Delete a draft; its upload and its addresses stay."""
    with res.db.begin() as session:
        session.delete(setup_service.get_draft(session, draft_id, for_update=True))
    return see_other(SETUP)


def _begin(request: Request, res: Resources, form: FormData) -> Response:
    file, source = form.get("file"), str(form.get("source") or LOCAL)
    name = str(form.get("name") or "").strip()
    agent_id = str(form.get("agentId") or "")
    typed = {"source": source, "name": name}
    has_file = isinstance(file, UploadFile) and bool(file.filename)
    if source == LOCAL and not has_file:
        return _render_start(
            request, res, typed, {"file": "is missing; choose a file, or another source"}
        )
    fields: dict[str, Any] = {
        "source": source,
        "timezone": reader_zone(request).key,
        "agentId": agent_id,
    }
    if isinstance(file, UploadFile) and file.filename and source == LOCAL:
        checked = check_form(
            UploadForm,
            {
                "replace": "replace" in form,
                "name": name or file.filename.rpartition(".")[0] or file.filename,
            },
        )
        if checked.body is None:
            return _render_start(request, res, typed, checked.errors)
        try:
            dataset_id = store_file(
                request, res, checked.body, file.filename, file.file, file.size or 0,
                ReadOptions(limits=read_limits(res.options)),
            )  # fmt: skip
        except (Invalid, Conflict, TooLarge, FileReaderBusy, UploadReaderLost) as error:
            return _render_start(request, res, typed, {"file": without_request(error.detail)})
        fields |= {
            "datasetId": dataset_id,
            "datasetRef": checked.body.name,
            "fileName": file.filename,
        }
    elif not name:
        return _render_start(
            request, res, typed, {"name": "is missing; name the dataset of the source"}
        )
    else:
        fields["datasetRef"] = name
    with res.db.begin() as session:
        draft_id = setup_service.create_draft(session, fields).id
    return see_other(path_of("setup", draft_id))


def _typed(form: FormFields) -> dict[str, Any]:
    """The fields of the page that are kept; an address is not, it may be a secret."""
    names = [
        name for name in DEFAULTS
        if name not in {*LISTS, "source", "datasetId", "endpoints"} and name in form
    ]  # fmt: skip
    return {name: form.text(name) for name in names} | {name: form.texts(name) for name in LISTS}


def _add_address(res: Resources, draft_id: str, form: FormFields) -> None:
    """Store an address, and send it a test message. Raises: `Invalid` for one that its channel does not accept."""
    recipient = form.text("recipient").strip()
    if not recipient:
        raise Invalid("enter the address")
    target = DeliveryTarget(form.text("channel"), recipient)
    require_target(target)
    with res.db.begin() as session:
        endpoint = save_endpoint(session, target, res.secrets, daily_summary=None)
        notifications.publish_test(session, endpoint)
        draft = setup_service.get_draft(session, draft_id, for_update=True)
        ids = [*draft.fields.get("endpoints", []), endpoint.id]
        setup_service.change_draft(draft, {"endpoints": [*dict.fromkeys(ids)]}, res.clock())


def _remove_address(res: Resources, draft_id: str, endpoint_id: str) -> None:
    with res.db.begin() as session:
        draft = setup_service.get_draft(session, draft_id, for_update=True)
        ids = [id_ for id_ in draft.fields.get("endpoints", []) if id_ != endpoint_id]
        setup_service.change_draft(draft, {"endpoints": ids}, res.clock())


def _create(request: Request, res: Resources, draft_id: str, *, with_run: bool) -> str:
    """Create everything and delete the draft; returns the address of the schedule, or of the first run."""
    with res.db.begin() as session:
        draft = setup_service.get_draft(session, draft_id, for_update=True)
        setup = Setup.of(draft.fields, _read_measures(session, draft))
        created = setup_service.create_all(session, setup, res.secrets, database_now(session))
        request.state.created = f"/api/v1/schedule-configs{path_of(created.schedule_id)}"
        address = path_of("schedules", created.schedule_id)
        if with_run:
            run = create_run(
                session, created.benchmark_id, created.agent_id, trigger=TriggerType.MANUAL
            )
            address = path_of("runs", run.id)
        session.delete(draft)
    return address


def _read_measures(session: Session, draft: SetupDraft) -> list[Measure]:
    traces = _read_sample(session, draft)
    return list_measures(traces) if draft.fields.get("datasetId") else list(UNREAD)


def _read_sample(session: Session, draft: SetupDraft) -> list[Trace]:
    dataset_id = draft.fields.get("datasetId")
    if not dataset_id or session.get(LocalDataset, dataset_id) is None:
        return []
    return list(list_uploaded_traces(session, dataset_id, PageQuery(SAMPLE)).rows)


def _render_start(
    request: Request,
    res: Resources,
    typed: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> Response:
    with res.db.read() as session:
        newest = select(SetupDraft).order_by(SetupDraft.updated_at.desc()).limit(SHOWN_DRAFTS)
        drafts = [(draft, Setup.of(draft.fields, ())) for draft in session.scalars(newest)]
        agents = list_agent_names(session)
    return render_page(
        request, "setup_start.html", title="Set up a nightly", nav=NAV, steps=STEPS,
        status=422 if errors else 200, typed=typed or {"source": LOCAL, "name": ""},
        errors=errors or {}, sources=list_sources(), drafts=drafts, agents=agents.choices(("", "choose later")),
    )  # fmt: skip


def _render(
    request: Request,
    res: Resources,
    draft_id: str,
    *,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    with res.db.read() as session:
        draft = setup_service.get_draft(session, draft_id)
        traces = _read_sample(session, draft)
        setup = Setup.of(draft.fields, _read_measures(session, draft))
        dataset_id = setup["datasetId"]
        dataset = get_local_dataset(session, dataset_id) if traces else None
        agents = list_agent_names(session)
        addresses = setup_service.list_addresses(session, setup["endpoints"])
    zone = reader_zone(request)
    typed = {"cronExpression": setup.cron, "timezone": setup["timezone"]}
    agent_id = setup["agentId"]
    agent = (agents.get(agent_id, agent_id) if agent_id else setup["agentName"]) or "the agent"
    return render_page(
        request, "setup.html", title="Set up a nightly", nav=NAV, steps=STEPS, status=status,
        has_secrets=True, draft=draft, setup=setup, dataset=dataset,
        rows=traces[:SHOWN_ROWS], has_scores=any(trace.scores for trace in traces),
        agents=agents.choices(("", "a new one")), agent_names=agents,
        preview=preview_typed(typed, res.clock(), zone, count=SHOWN_ROWS),
        zones=[(name, name) for name in sorted(zone_names())], days=DAYS, directions=DIRECTIONS,
        channels=[(name, name.capitalize()) for name in CHANNELS.names()], addresses=addresses,
        is_pending=any(address.is_awaited for address in addresses),
        bad_night=setup.decider and write_bad_night(
            setup, setup.decider, agent, traces, res.clock(), zone, public_url(request)
        ),
        errors=errors or {},
    )  # fmt: skip
