"""Morning tells the truth about change: groups, periods, one verdict for a number on all pages, and the fleet."""

import json
import re
from html import unescape
from typing import Any, Final

import pytest
from sqlalchemy import text

from mosaico.access.models import ApiKey
from tests.support.every_page import RUN
from tests.support.page_reads import HTML, read_json
from tests.support.page_reads import read_page as read_html
from tests.support.service import Service

OTHER: Final = "run-sql-support-0"


def read_page(service: Service, path: str) -> str:
    return re.sub(r"\s+", " ", unescape(read_html(service, path)))


def read_changes(service: Service, group: str, hours: int = 24) -> list[dict[str, Any]]:
    changes = read_json(service, f"/overview?hours={hours}")["changes"]
    return [change for change in changes if change["group"] == group]


def runs_of(service: Service, group: str, hours: int = 24) -> list[str]:
    return [change["runId"] for change in read_changes(service, group, hours)]


def send(service: Service, path: str, fields: dict[str, Any]) -> None:
    response = service.client.post(path, data=fields, headers=HTML, follow_redirects=False)
    assert response.status_code == 303, response.text


def write_drop(service: Service, run_id: str, value: float, before: float = 0.9) -> str:
    """Let the pass rate of a run of the month fall; no rule watches it."""
    numbers = {
        "verdict": "REGRESSED",
        "value": value,
        "baselineValue": before,
        "effect": value - before,
    }
    with service.resources.db.begin() as session:
        session.execute(
            text(
                "UPDATE kpi_history SET value = :value, verdict = verdict || CAST(:numbers AS jsonb)"
                " WHERE run_id = :run AND kpi_id LIKE '%-pass'"
            ),
            {"run": run_id, "value": value, "numbers": json.dumps(numbers)},
        )
        session.execute(
            text(
                'UPDATE benchmark_runs SET verdict = verdict || \'{"verdict": "REGRESSED"}\' WHERE id = :run'
            ),
            {"run": run_id},
        )
    return run_id


def test_judged_change__leaves_new_and_says_who_when_and_why_until_it_is_undone(
    month: Service,
) -> None:
    assert RUN in runs_of(month, "NEW")
    send(
        month,
        "/incidents/judge",
        {"incident": "alert-0", "verdict": "noise", "note": "old price list"},
    )
    assert RUN not in runs_of(month, "NEW")
    [change] = read_changes(month, "JUDGED")
    judgement = change["judgement"]
    assert (judgement["verdict"], judgement["note"]) == ("noise", "old price list")
    with month.resources.db.read() as session:
        name = session.get_one(ApiKey, judgement["by"]).name
    assert judgement["byName"] == name
    row = re.search(r'<ul class="rows">.*?</ul>', read_page(month, "/"))
    assert row is not None
    for fact in ("false alarm", "old price list", name, "Billing bot", "/incidents/undo"):
        assert fact in row[0], fact
    # The message about its end does not call for anybody.
    assert all(
        "Resolved" not in message["title"]
        for message in read_json(month, "/inbox?state=open")["items"]
    )
    for path in ("/inbox?tab=all", "/incidents/alert-0"):
        page = read_page(month, path)
        assert name in page, path
    assert "0 of 7 got worse" not in (page := read_page(month, "/"))
    assert "Nothing got worse" in page
    send(month, "/incidents/undo", {"incident": "alert-0"})
    assert RUN in runs_of(month, "NEW")
    assert not read_changes(month, "JUDGED")


def test_periods__read_history_and_say_how_many_changes_they_have(month: Service) -> None:
    before = {
        period["name"]: period["changes"] for period in read_json(month, "/overview")["periods"]
    }
    week = write_drop(month, "run-triage-warehouse-3", 0.6)
    old = write_drop(month, "run-triage-warehouse-20", 0.5)
    recovered = {hours: set(runs_of(month, "RECOVERED", hours)) for hours in (24, 168, 720)}
    for run_id in (week, old):
        # The run of the next night was fine again.
        assert run_id in recovered[720]
    assert week in recovered[168]
    assert old not in recovered[168]
    assert not {week, old} & recovered[24]
    after = {
        period["name"]: period["changes"] for period in read_json(month, "/overview")["periods"]
    }
    assert [after[name] - before[name] for name in ("24 h", "7 days", "30 days")] == [0, 1, 2]
    page = read_page(month, "/?hours=720")
    for name, count in after.items():
        assert f"{name} · {count}" in page
    assert "1 recovered" in page


def test_new__has_the_largest_drop_first_and_ongoing_says_since_when(month: Service) -> None:
    with month.resources.db.begin() as session:
        # The incident of the month began three weeks ago, with a smaller drop than that of tonight.
        session.execute(
            text(
                "UPDATE incidents SET opened_at = now() - interval '21 days', started_at = opened_at - interval '21 days'"
            )
        )
    small = write_drop(month, OTHER, 0.8)
    large = write_drop(month, "run-triage-warehouse-0", 0.5)
    new = runs_of(month, "NEW")
    assert [run_id for run_id in new if run_id in (large, small)] == [large, small]
    [ongoing] = read_changes(month, "ONGOING")
    assert ongoing["incidentIds"] == ["alert-0"]
    page = read_page(month, "/")
    assert page.index(large) < page.index('id="ongoing"') < page.index("/incidents/alert-0")
    for path in (f"/runs/{RUN}", "/benchmarks/support/kpis/support-pass?agent=billing"):
        assert re.search(
            r'Worse since .*? <a href="/incidents/alert-0">', read_page(month, path)
        ), path


def test_verdict__belongs_to_its_number_on_all_pages(month: Service) -> None:
    """The cost is inconclusive, the pass rate is not: no page gives the word to the pass rate."""
    with month.resources.db.begin() as session:
        set_word = "SET verdict = jsonb_set(verdict, '{verdict}', '\"INCONCLUSIVE\"')"
        session.execute(
            text(f"UPDATE kpi_history {set_word} WHERE run_id = :run AND kpi_id = 'support-cost'"),
            {"run": OTHER},
        )
        session.execute(text(f"UPDATE benchmark_runs {set_word} WHERE id = :run"), {"run": OTHER})
    [pair] = [
        pair for pair in read_json(month, "/overview/fleet")["pairs"] if pair["runId"] == OTHER
    ]
    assert (pair["verdict"], pair["decidedBy"]) == ("INCONCLUSIVE", "cost per task")
    assert (pair["kpi"]["name"], pair["kpi"]["outcome"]) == ("pass rate", "NO_EVIDENCE")

    def row_of(path: str, mark: str) -> str:
        rows = re.findall(r"<tr.*?</tr>", read_page(month, path))
        return next(str(row) for row in rows if mark in row)

    for path in ("/", "/fleet?layout=table"):
        row = row_of(path, f'href="/runs/{OTHER}"')
        assert "no evidence" in row.partition("</td>")[0], path
        assert "cost per task: inconclusive" in row, path
    row = row_of("/runs", f"r-{OTHER}")
    assert re.search(r"inconclusive</span>\s*<span class=\"of\">cost per task", row)
    page = read_page(month, f"/runs/{OTHER}")
    assert re.search(r"inconclusive</span>\s*<span class=\"of\">cost per task", page)
    assert "decides" in row_of(f"/runs/{OTHER}", "cost per task")
    assert "decides" not in row_of(f"/runs/{OTHER}", ">pass rate<")
    trends = {
        kpi: read_page(month, f"/benchmarks/support/kpis/support-{kpi}?agent=sql").partition(
            "</h1>"
        )[0]
        for kpi in ("pass", "cost")
    }
    assert "no evidence" in trends["pass"]
    assert "inconclusive" in trends["cost"]


def test_fleet__filters_groups_and_draws_the_last_nights(month: Service) -> None:
    fleet = read_json(month, "/overview/fleet")
    assert fleet["total"] == len(fleet["pairs"]) == 7
    worst = fleet["pairs"][0]
    assert worst["runId"] == RUN
    assert len(worst["nights"]) == 14
    assert worst["nights"][-1]["outcome"] == "REGRESSED"
    names = [pair["agentName"] for pair in read_json(month, "/overview/fleet?order=name")["pairs"]]
    assert names == sorted(names)
    found = read_json(month, "/overview/fleet?text=billing&outcome=REGRESSED")["pairs"]
    assert [pair["runId"] for pair in found] == [RUN]
    grid = read_page(month, "/fleet")
    agents = re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', grid)
    assert agents[0] == "Billing bot"
    # One agent on two benchmarks: without a choice, the rows are what there is more of.
    for path in ("/fleet?rows=benchmark", "/fleet?text=billing"):
        assert 'scope="row"><a href="/benchmarks/support">' in read_page(month, path), path
    assert 'scope="row"><a href="/agents/billing">' in read_page(
        month, "/fleet?text=billing&rows=agent"
    )
    assert "No pair matches" in read_page(month, "/fleet?text=nobody")


def test_fleet__says_of_a_drop_what_its_card_says(month: Service) -> None:
    cards, _, fleet = read_page(month, "/").partition('id="grid"')
    for said in ("tool refund.lookup failed", "gpt-5.2-mini", "31.0 % of the values"):
        assert said in cards, said
        assert said in fleet, said


def test_fleet__same_answers_and_unmeasured_runs_are_news(month: Service) -> None:
    with month.resources.db.begin() as session:
        session.execute(
            text(
                "UPDATE benchmark_runs SET same_data_as = 'run-sql-support-1', has_new_data = false WHERE id = :run"
            ),
            {"run": OTHER},
        )
    outcomes = {change["runId"]: change["outcome"] for change in read_changes(month, "NEW")}
    assert outcomes[OTHER] == "SAME_ANSWERS"
    assert outcomes["run-triage-tickets-0"] == "INVALID"


@pytest.mark.parametrize("path", ["/incidents/judge", "/incidents/undo"])
def test_judgement__names_its_incidents(month: Service, path: str) -> None:
    response = month.client.post(
        path, data={"verdict": "true"}, headers=HTML, follow_redirects=False
    )
    assert response.status_code == 422
