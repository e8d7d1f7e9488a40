from datetime import UTC, datetime

from app.runs.source_runs import ListedRun, match_names, select_complete_runs
from app.traces.registry import SourceRun

AT = datetime(2026, 11, 22, tzinfo=UTC)


def held(run_id: str, name: str, *, complete: bool = True) -> SourceRun:
    return SourceRun(id=run_id, name=name, started_at=AT, ended_at=None, items=1, complete=complete)


def test_a_run_is_asked_for_by_name_unless_another_has_the_same() -> None:
    listed = select_complete_runs([held("a", "night"), held("b", "night"), held("c", "day")])
    assert [run.selector for run in listed] == ["a", "b", "day"]


def test_a_run_that_is_not_complete_is_left_out_and_keeps_its_name() -> None:
    listed = select_complete_runs([held("b", "night", complete=False), held("a", "night")])
    assert listed == [ListedRun("a", "night", "a")]


def test_a_glob_tells_capitals_apart() -> None:
    listed = select_complete_runs(
        [held("a", "nightly-3"), held("b", "manual"), held("c", "nightly-2")]
    )
    assert [run.id for run in match_names(listed, "nightly-*")] == ["a", "c"]
    assert match_names(listed, "Nightly-*") == []
    assert [run.id for run in match_names(listed, "nightly-[12]")] == ["c"]
