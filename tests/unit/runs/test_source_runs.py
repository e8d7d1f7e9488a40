"""Selection among the runs of a trace source."""

from datetime import UTC, datetime

from mosaico.runs.source_runs import ListedRun, match_names, select_complete_runs
from mosaico.traces.registry import SourceRun

AT = datetime(2026, 11, 22, tzinfo=UTC)


def source_run(run_id: str, name: str, *, complete: bool = True) -> SourceRun:
    return SourceRun(id=run_id, name=name, started_at=AT, ended_at=None, items=1, complete=complete)


def test_select_complete_runs__selector_is_the_name_unless_it_is_ambiguous() -> None:
    listed = select_complete_runs(
        [source_run("a", "nightly"), source_run("b", "nightly"), source_run("c", "day")]
    )
    assert [run.selector for run in listed] == ["a", "b", "day"]


def test_select_complete_runs__an_incomplete_run_is_left_out_and_keeps_its_name() -> None:
    listed = select_complete_runs(
        [source_run("b", "nightly", complete=False), source_run("a", "nightly")]
    )
    assert listed == [ListedRun(source_run("a", "nightly"), "a")]


def test_match_names__is_case_sensitive() -> None:
    listed = select_complete_runs(
        [source_run("a", "nightly-3"), source_run("b", "manual"), source_run("c", "nightly-2")]
    )
    assert [run.id for run in match_names(listed, "nightly-*")] == ["a", "c"]
    assert match_names(listed, "Nightly-*") == []
    assert [run.id for run in match_names(listed, "nightly-[12]")] == ["c"]
