"""Which filters of runs the cheaper statement serves: a filter that it does not know must not be lost."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from mosaico.run_store.rules import RunStatus, TriggerType, Validity
from mosaico.run_store.run_list import PLAIN_FILTERS, RunListFilter
from mosaico.statistics.verdict_rules import Verdict

# A value of each filter.
VALUES: Final[dict[str, Any]] = {
    "benchmark_ids": ["b"],
    "agent_ids": ["a"],
    "statuses": [RunStatus.COMPLETED],
    "since": datetime(2026, 1, 1, tzinfo=UTC),
    "until": datetime(2026, 2, 1, tzinfo=UTC),
    "triggers": [TriggerType.MANUAL],
    "schedule_ids": ["s"],
    "validities": [Validity.VALID],
    "verdicts": [Verdict.REGRESSED],
    "text": "q",
}


@pytest.mark.parametrize("name", RunListFilter.model_fields)
def test_run_list_filter__only_the_listed_fields_are_plain(name: str) -> None:
    run_filter = RunListFilter.model_validate({name: VALUES[name]}, by_name=True)
    assert run_filter.is_plain == (name in PLAIN_FILTERS)


def test_run_list_filter__several_values_are_not_plain() -> None:
    assert RunListFilter().is_plain
    assert not RunListFilter(status=[RunStatus.FAILED, RunStatus.COMPLETED]).is_plain
