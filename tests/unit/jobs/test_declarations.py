"""Jobs are stored as JSON objects and decoded to equal objects; each name has one declaration and handler."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from mosaico.jobs import declarations
from mosaico.jobs.declarations import (
    BeginRun,
    DropPurgedRun,
    FailRun,
    FailureReport,
    JobRequest,
    ScoreShard,
)
from mosaico.jobs.handlers import HANDLERS, JobHandler
from mosaico.worker import TASKS

DECLARED = [
    declaration
    for declaration in vars(declarations).values()
    if isinstance(declaration, type)
    and issubclass(declaration, JobRequest)
    and declaration not in (JobRequest, FailureReport)
]


def test_job_request__is_stored_as_json_and_decoded_to_an_equal_object() -> None:
    purge = DropPurgedRun(run_id="run-1", purged_at=datetime(2026, 11, 23, 4, 5, tzinfo=UTC))

    stored = purge.arguments()

    assert stored == {"run_id": "run-1", "purged_at": "2026-11-23T04:05:00Z"}
    assert DropPurgedRun.model_validate(stored) == purge


@pytest.mark.parametrize("arguments", [{}, {"run_id": "run-1", "shard": 0}, {"run_id": 1}])
def test_job_request__other_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BeginRun.model_validate(arguments)


def test_failure_report__ignores_arguments_of_the_failed_job() -> None:
    stored = ScoreShard(run_id="run-1", shard=3).arguments()

    report = FailRun.model_validate({**stored, "code": "POISON", "message": "see the logs"})

    assert report == FailRun(run_id="run-1", code="POISON", message="see the logs")


def test_declarations__each_name_has_one_class_and_one_handler() -> None:
    assert TASKS, "the modules with handlers are imported"
    handled = {handler.name: handler.request_type for handler in HANDLERS}

    assert handled == {declaration.NAME: declaration for declaration in DECLARED}
    assert len(handled) == len(DECLARED)


def fields_of(handler: JobHandler) -> set[str]:
    return {*handler.request_type.model_fields}


def test_declarations__a_report_needs_only_what_the_failed_job_has() -> None:
    for handler in HANDLERS:
        if handler.on_failure is not None:
            needed = {*handler.on_failure.model_fields} - {"code", "message"}
            assert needed <= fields_of(handler), handler.name
