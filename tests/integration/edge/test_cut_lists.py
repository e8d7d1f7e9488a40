"""Pages that show a part of a list say how much of it, and give a way to the rest; trials of two runs are
paired by their number.
"""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Final

import pytest
from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from mosaico.alerts.models import AlertEvent, Incident
from mosaico.benchmarks.config_types import MetricSelection
from mosaico.benchmarks.models import Benchmark, BenchmarkRevision, KpiDefinition
from mosaico.notifications.models import Delivery, Notification
from mosaico.reporting import pages as trend_pages
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.schedules.models import ScheduleFire
from mosaico.traces.models import CollectedTrace
from mosaico.triggers.models import TriggerEvent
from tests.support import page_reads
from tests.support.every_page import BASE, RUN
from tests.support.page_data import write_month, write_schedule
from tests.support.service import Service

METRICS: Final = [f"METRIC_{number}" for number in range(9)]
MANY_METRICS: Final = "case-020"
NOW: Final = datetime.now(UTC)


@pytest.fixture(scope="module")
def crowded(module_service: Service) -> Service:
    """A month with more of everything than a page shows."""
    with module_service.resources.db.begin() as session:
        write_month(session)
        write_schedule(session)
        _measure_more(session)
        _write_trials(session)
        _write_more_rows(session)
    return module_service


def _measure_more(session: Session) -> None:
    """Two runs with nine metrics, which all changed."""
    for run_id, change in ((BASE, 0.0), (RUN, 0.5)):
        run = session.scalars(select(BenchmarkRun).where(BenchmarkRun.id == run_id)).one()
        run.metric_keys = ["EXACT_MATCH", "LATENCY_MS", *METRICS]
        for result in session.scalars(select(TraceResult).where(TraceResult.run_seq == run.seq)):
            result.values = [*result.values, *(number + change for number in range(9))]


def _write_trials(session: Session) -> None:
    """An item of nine trials in the baseline; the run lacks the trial 2 of 9."""
    for run_id, trials in ((BASE, range(9)), (RUN, [0, *range(2, 9)])):
        run = session.scalars(select(BenchmarkRun).where(BenchmarkRun.id == run_id)).one()
        for trial in trials:
            session.add(
                CollectedTrace(
                    collection_id=run.collection_id, position=1000 + trial, trial=trial,
                    trace_id=f"{run_id}/many-{trial}", item_id="many", outcome="scored",
                    input="?", expected_output="x", output=f"answer of trial {trial}", tags=[],
                )
            )  # fmt: skip


def _write_more_rows(session: Session) -> None:
    session.add_all(
        BenchmarkRevision(benchmark_id="support", revision=number, changed_at=NOW, changes=["name"])
        for number in range(2, 14)
    )
    session.add_all(
        KpiDefinition(
            id=f"support-{number}", revision=1, benchmark_id="support", name=f"extra {number}",
            formula="EXACT_MATCH", gate=False, direction="HIGHER_IS_BETTER",
        )
        for number in range(8)
    )  # fmt: skip
    benchmark = session.get_one(Benchmark, "support")
    benchmark.metrics = [MetricSelection(key=key) for key in ("EXACT_MATCH", *METRICS)]
    for number in range(40):
        session.add(
            ScheduleFire(
                schedule_id="nightly", due_at=NOW - timedelta(days=60 + number), fired_at=NOW, status="SKIPPED",
                triggered_by="SCHEDULED", reason="MISSED",
            )
        )  # fmt: skip
    first = session.get_one(AlertEvent, "alert-0")
    for number in range(60):
        session.add(
            AlertEvent(
                id=f"more-{number}", dedup_key=f"more-{number}", state="WORSE", name=f"more {number}",
                severity="CRITICAL", benchmark_id="support", agent_id="billing", run_id=RUN,
                run_seq=first.run_seq, rule_id="rule-1", incident_id="alert-0", details=first.details,
                notification_id="note-0" if number < 5 else None, explanation="It fell.",
                created_at=NOW - timedelta(minutes=30 + number),
            )
        )  # fmt: skip
    note = session.get_one(Notification, "note-0")
    sentences = tuple(f"Sentence {number} of the message." for number in range(7))
    note.message = replace(note.message, sentences=sentences)
    for number in range(40):
        session.add(
            Notification(
                id=f"more-{number}", topic="test", severity="INFO", title="test", message=note.message,
                read_at=NOW, created_at=NOW - timedelta(days=1),
            )
        )  # fmt: skip
        session.flush()
        session.add(
            Delivery(
                id=f"more-{number}", notification_id=f"more-{number}", endpoint_id="endpoint-1",
                status="DELIVERED", attempts=1,
            )
        )  # fmt: skip
    session.add(
        TriggerEvent(
            id="event-1", type="trace-created", received_at=NOW, status="STARTED",
            details={}, benchmark_ids=[], run_ids=[f"run-{number}" for number in range(8)],
        )
    )  # fmt: skip


def read_page(service: Service, path: str) -> str:
    return unescape(page_reads.read_page(service, path))


def read_text(html: str) -> str:
    """The text of a page, without its tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_side_by_side__trials_are_paired_by_their_number(crowded: Service) -> None:
    page = read_page(crowded, f"/runs/{RUN}/items?item=many&base={BASE}")
    second, third = re.findall(r"<h2>Trial [23]</h2>.*?(?=<h2>|<nav)", page)[:2]
    assert "answer of trial 1" in read_text(second)
    assert "this run has no such trial" in second
    assert third.count("answer of trial 2") == 2


def test_side_by_side__every_trial_and_metric_is_reached(crowded: Service) -> None:
    page = read_page(crowded, f"/runs/{RUN}/items?item=many&base={BASE}")
    assert "6 of 9 trials" in page
    [address] = re.findall(r'rel="next" href="([^"]+)"', page)
    next_page = read_page(crowded, address)
    assert re.findall(r"<h2>Trial (\d)</h2>", page + next_page) == list("123456789")
    assert "First trials" in next_page
    measured = read_page(crowded, f"/runs/{RUN}/items?item={MANY_METRICS}&base={BASE}")
    assert "4 of 11 metrics" in measured
    assert all(f"<dt>{metric}</dt>" in measured for metric in METRICS)


@pytest.mark.parametrize(
    ("path", "count_text", "reached"),
    [
        (f"/compare?base={BASE}&run={RUN}&layout=case", "4 of 9 changed", "METRIC_8 +0.5"),
        ("/inbox?tab=all", "4 of 7 sentences", "Sentence 6 of the message."),
        ("/inbox?tab=all", "3 of 6 alerts", "more 4"),
        ("/benchmarks", "6 of 10 KPIs", "extra 7"),
        ("/benchmarks", "6 of 10 metrics", "METRIC_8"),
        ("/triggers", "5 of 8 runs", "run-7"),
        (f"/runs/{RUN}/traces", "4 of 11 metrics are shown", "METRIC_8"),
    ],
)
def test_page__cut_part_is_counted_and_folded(
    path: str, count_text: str, reached: str, crowded: Service
) -> None:
    page = read_page(crowded, path)
    assert count_text in page
    folded = " ".join(re.findall(r"<details.*?</details>", page))
    assert reached in read_text(folded)


@pytest.mark.parametrize(
    ("path", "count_text", "address"),
    [
        ("/benchmarks/support", "10 of 12 revisions", "/benchmarks/support/revisions"),
        ("/schedules/nightly", "30 of 70 fires", "/schedules/nightly/fires"),
        ("/alerts/rule-1", "10 of 61 alerts", "/alert-history?rule=rule-1"),
        (f"/runs/{RUN}", "5 of 61 alerts", f"/alert-history?run={RUN}"),
        ("/incidents/alert-0", "50 of 61 alerts", "/alert-history?rule=rule-1&agent=billing"),
        ("/endpoints/endpoint-1", "30 of 41 deliveries", "/deliveries?endpoint=endpoint-1"),
    ],
)  # fmt: skip
def test_page__cut_list_is_counted_and_links_to_all(
    path: str, count_text: str, address: str, crowded: Service
) -> None:
    page = read_page(crowded, path)
    assert count_text in page
    assert f'href="{address}"' in page
    total = int(count_text.split()[2])
    rows = 0
    following: str | None = address
    while following:
        listed = read_page(crowded, following)
        rows += listed.count("<tr data-row")
        following = next(iter(re.findall(r'href="([^"]+)" rel="next"', listed)), None)
    assert rows == total


def test_trend__cut_incidents_are_counted(
    crowded: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all times, and with the false alarms, as the list to which the page leads."""
    monkeypatch.setattr(trend_pages, "MAX_INCIDENTS", 0)
    other = {
        "id": "false-alarm",
        "verdict": "noise",
        "state": "RESOLVED",
        "resolved_at": "2026-01-01T00:00:00Z",
    }
    with crowded.resources.db.begin() as session:
        copy = "INSERT INTO incidents SELECT (jsonb_populate_record(incidents, :other)).* FROM incidents LIMIT 1"
        session.execute(text(copy), {"other": json.dumps(other)})
    page = read_page(crowded, "/benchmarks/support/kpis/support-pass?agent=billing")
    with crowded.resources.db.begin() as session:
        listed = read_page(crowded, re.findall(r'<a href="([^"]+)">all incidents', page)[0])
        session.execute(delete(Incident).where(Incident.id == "false-alarm"))
    assert "0 of 2 incidents" in page
    assert listed.count("<tr data-row") == 2


def test_run__baselines_before_the_first_are_linked(crowded: Service) -> None:
    earlier = tuple(f"run-billing-support-{number}" for number in (1, 2, 3))
    with crowded.resources.db.begin() as session:
        run = session.scalars(select(BenchmarkRun).where(BenchmarkRun.id == RUN)).one()
        before = run.verdict
        assert before is not None
        assert before.baseline is not None
        baseline = before.baseline.model_copy(update={"run_ids": earlier})
        run.verdict = before.model_copy(update={"baseline": baseline})
    page = read_page(crowded, f"/runs/{RUN}")
    [address] = re.findall(r'<a href="([^"]+)">2 before it</a>', page)
    listed = read_page(crowded, address)
    assert all(f'href="/runs/{run_id}"' in listed for run_id in earlier)
    # The comparison is that of the verdict, and each document of the page can be read.
    [comparison] = set(re.findall(r'href="(/compare\?[^"]+)">compare', page))
    assert comparison == f"/compare?{''.join(f'base={run_id}&' for run_id in earlier)}run={RUN}"
    for document in re.findall(r'<a type="application/json" href="([^"]+)"', page):
        assert crowded.client.get(document).status_code in {200, 409}, document
    assert 'href="/runs/run-billing-support-4"' not in listed
    with crowded.resources.db.begin() as session:
        session.scalars(select(BenchmarkRun).where(BenchmarkRun.id == RUN)).one().verdict = before


def test_run__answers_are_counted_and_all_are_reached(crowded: Service) -> None:
    address: str | None = f"/runs/{RUN}?show=all"
    total = crowded.get(f"/benchmark-runs/{RUN}/answers")["counts"]["all"]
    items = list[str]()
    while address is not None:
        page = read_page(crowded, address)
        assert f" of {total} " in page
        items += re.findall(r"<code>(case-\d+|many[-\w]*)</code>", page)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        address = following[1] if following else None
    assert len(items) == len(set(items)) == total
