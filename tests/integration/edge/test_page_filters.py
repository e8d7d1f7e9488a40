"""What pages select and change, over HTTP: periods, CSV, the inbox, Morning, comparison, deliveries."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any, Final

import pytest
from sqlalchemy import select, text

from app.core.web.static_files import FOLDER
from app.kpis.verdict_types import BaselineRuns, BaselineSelection
from app.overview.visits import Visits, read_visits
from app.results.kpi_trend import MAX_POINTS, list_trend_buckets
from app.results.models import BenchmarkRun
from app.statistics.verdict_rules import Verdict
from tests.support.many_runs import write_many_runs
from tests.support.page_data import write_month, write_schedule, write_traces
from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
RUN: Final = "run-billing-support-0"
NOW: Final = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


@pytest.fixture
def month(service: Service) -> Service:
    with service.resources.db.begin() as session:
        write_month(session)
    return service


@pytest.fixture(scope="module")
def read_month(module_service: Service) -> Service:
    """A month that no test changes."""
    with module_service.resources.db.begin() as session:
        write_month(session)
    return module_service


def read_page(service: Service, path: str, **headers: str) -> str:
    response = service.client.get(path, headers={**HTML, **headers})
    assert response.status_code == 200, response.text
    return response.text


def read_json(service: Service, path: str) -> Any:
    response = service.client.get(f"/api/v1{path}")
    assert response.status_code == 200, response.text
    return response.json()


def read_csv(service: Service, path: str) -> list[dict[str, str]]:
    response = service.client.get(path)
    assert response.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(response.text)))


def test_runs__csv_has_the_filtered_runs_in_the_order_of_the_page(read_month: Service) -> None:
    page = read_page(read_month, "/runs?agent=billing&verdict=REGRESSED&sort=completed")
    address = unescape(re.findall(r'href="(/api/v1/benchmark-runs\.csv[^"]*)"', page)[0])
    [row] = read_csv(read_month, address)
    assert (row["runId"], row["agent"], row["verdict"]) == (RUN, "Billing bot", "REGRESSED")
    rows = read_csv(read_month, "/api/v1/benchmark-runs.csv?sort=created")
    # Thirty nights of seven pairs, and the run in progress.
    assert len(rows) == 211
    assert [row["createdAt"] for row in rows] == sorted(row["createdAt"] for row in rows)


def test_runs__csv_has_no_name_that_a_spreadsheet_would_run(month: Service) -> None:
    with month.resources.db.begin() as session:
        session.execute(text("UPDATE agents SET name = '=1+1' WHERE id = 'billing'"))
    for path in ("benchmark-runs", "kpi-history"):
        rows = read_csv(month, f"/api/v1/{path}.csv?agentId=billing")
        assert {row["agent"] for row in rows} == {"'=1+1"}


def test_runs__period_has_the_days_of_the_readers_zone(read_month: Service) -> None:
    rows = read_csv(read_month, "/api/v1/benchmark-runs.csv")
    # Tokyo has no summer time.
    offset = timedelta(hours=9)
    days = [(datetime.fromisoformat(row["createdAt"]) + offset).date() for row in rows]
    day = sorted(set(days))[-3]
    page = read_page(read_month, f"/runs?from={day}&to={day}", Cookie="mosaico_zone=Asia/Tokyo")
    assert f">{days.count(day)} runs<" in page
    assert days.count(day) == 7
    wrong = read_month.client.get("/runs?from=yesterday", headers=HTML)
    assert wrong.status_code == 422
    assert "2026-11-23" in wrong.text


def test_runs__are_those_of_a_schedule(month: Service) -> None:
    with month.resources.db.begin() as session:
        write_schedule(session)
        session.execute(
            text("UPDATE benchmark_runs SET schedule_id = 'nightly' WHERE id LIKE 'run-sql-%-1'")
        )
    [address] = re.findall(
        r'href="(/runs\?schedule=[^"]+)"', read_page(month, "/schedules/nightly")
    )
    page = read_page(month, unescape(address))
    shown = set(re.findall(r'id="r-([^"]+)"', page))
    assert shown
    assert all(run_id.startswith("run-sql-") for run_id in shown)
    assert 'name="schedule" maxlength="200" value="nightly"' in page
    [path] = re.findall(r'<a type="application/json" href="/api/v1([^"]+)"', page)
    assert {run["id"] for run in read_json(month, unescape(path))["items"]} == shown
    [csv_address] = re.findall(r'href="(/api/v1/benchmark-runs\.csv[^"]*)"', page)
    assert {row["runId"] for row in read_csv(month, unescape(csv_address))} == shown
    assert "No run matches" in read_page(month, "/runs?schedule=other")


def test_morning__acknowledges_the_alert_of_a_regressed_run(month: Service) -> None:
    page = read_page(month, "/")
    form = re.search(r'action="/inbox/ack".*?</form>', page, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[0]))
    response = month.client.post("/inbox/ack", data=fields, headers=HTML, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert 'action="/inbox/ack"' not in read_page(month, "/")
    [cell] = [c for c in read_json(month, "/overview")["cells"] if c["runId"] == RUN]
    assert cell["openAlerts"] == []


def test_morning__offers_the_time_since_the_last_visit(read_month: Service) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    last = f"{now - timedelta(hours=9):%Y-%m-%dT%H:%M:%SZ}"
    first = read_page(read_month, "/")
    assert "last visit" not in first
    page = read_page(read_month, "/", Cookie=f"mosaico_visits={last}")
    address = f"/?from={last.replace(':', '%3A')}"
    assert f'href="{address}"' in page
    response = read_month.client.get(address, headers={**HTML, "Cookie": f"mosaico_visits={last}"})
    assert "since your last visit" in response.text
    assert read_json(read_month, f"/overview?from={last.replace(':', '%3A')}")["since"] == last


def test_visits__a_reload_continues_a_visit_and_a_wrong_cookie_has_none() -> None:
    first = read_visits("", NOW)
    assert first == Visits(NOW, None)
    again = read_visits(str(first), NOW + timedelta(minutes=5))
    assert again.last is None
    second = read_visits(str(again), NOW + timedelta(hours=20))
    assert second.last == NOW + timedelta(minutes=5)
    # A visit ends when no page was opened for an hour.
    assert read_visits(str(second), NOW + timedelta(hours=20, minutes=59)).last == second.last
    for cookie in ("x", "..", "2026-13-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        assert read_visits(cookie, NOW) == Visits(NOW, None)


def test_inbox__selected_messages_are_acknowledged_with_a_note(month: Service) -> None:
    address = "/inbox?tab=open&agent=billing"
    page = read_page(month, address)
    messages = re.findall(r'name="message" value="([^"]+)"', page)
    assert messages
    note = "The refund tool was down."
    form = {"message": messages, "verdict": "true", "note": note, "next": address}
    response = month.client.post("/inbox/ack", data=form, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == address
    alerts = read_json(month, "/alerts?acknowledged=true&agentId=billing")["items"]
    assert {alert["note"] for alert in alerts} == {note}
    assert {alert["notificationId"] for alert in alerts} == set(messages)
    assert note in read_page(month, "/inbox?tab=acknowledged")
    assert note in read_page(month, f"/alerts/events/{alerts[0]['id']}")
    assert 'name="message"' not in read_page(month, "/inbox")


def test_inbox__acknowledgement_refuses_nothing_selected_a_wrong_verdict_and_another_host(
    month: Service,
) -> None:
    post = month.client.post
    assert post("/inbox/ack", data={"verdict": "true"}, headers=HTML).status_code == 422
    wrong = {"message": "note-0", "verdict": "maybe"}
    assert post("/inbox/ack", data=wrong, headers=HTML).status_code == 422
    away = {"message": "note-0", "verdict": "true", "next": "//evil.example"}
    response = post("/inbox/ack", data=away, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == "/"


def test_inbox__is_filtered_by_agent_benchmark_and_severity(read_month: Service) -> None:
    everything = read_page(read_month, "/inbox?tab=all").count("<article")
    counts = {
        query: read_page(read_month, f"/inbox?tab=all&{query}").count("<article")
        for query in ("agent=billing", "benchmark=support", "severity=CRITICAL", "agent=triage")
    }
    assert everything > 1
    assert counts["agent=billing"] == counts["benchmark=support"] == 1
    assert counts["severity=CRITICAL"] < everything
    assert counts["severity=CRITICAL"] == len(
        read_json(read_month, "/notifications?severity=CRITICAL")["items"]
    )
    assert "No message matches" in read_page(read_month, "/inbox?tab=all&agent=sql&severity=INFO")


def test_alert__message_is_sent_again_and_the_alert_is_shown(month: Service) -> None:
    page = read_page(month, "/alerts/events/alert-0")
    form = re.search(r'action="(/deliveries/[^"]+/redeliver)".*?</form>', page, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[0]))
    response = month.client.post(form[1], data=fields, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == "/alerts/events/alert-0"
    delivery = read_json(month, form[1].removesuffix("/redeliver"))
    assert delivery["status"] == "PENDING"


def test_trend__many_runs_are_buckets_with_mean_range_and_worst_verdict(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_many_runs(session, months=13)
        query = "kpi_id = 'support-pass' AND agent_id = 'billing' AND validity = 'VALID'"
        rows = (
            session.execute(text(f"SELECT value FROM kpi_history WHERE {query} ORDER BY id"))
            .scalars()
            .all()
        )
        since = datetime.now(UTC) - timedelta(days=3650)
        buckets = list_trend_buckets(session, "support", "billing", "support-pass", since=since)
    assert len(rows) > MAX_POINTS
    assert len(buckets) <= MAX_POINTS
    assert sum(bucket.runs for bucket in buckets) == len(rows)
    size = buckets[0].runs
    first = rows[:size]
    assert buckets[0].mean == pytest.approx(sum(first) / size)
    assert (buckets[0].low, buckets[0].high) == (min(first), max(first))
    regressed = [bucket for bucket in buckets if bucket.verdict == "REGRESSED"]
    assert regressed
    assert all("billing-support" in bucket.run_id for bucket in regressed)
    page = read_page(service, "/benchmarks/support/kpis/support-pass?agent=billing&days=3650")
    assert page.count("data-point") == len(buckets)
    assert f"A point is {size} consecutive runs, {len(rows)} in all" in page
    short = read_page(service, "/benchmarks/support/kpis/support-pass?agent=billing&days=30")
    assert "A point is a run" in short


def test_trend__files_have_the_runs_of_the_page(read_month: Service) -> None:
    page = read_page(read_month, "/benchmarks/support/kpis/support-pass?agent=billing&days=30")
    files = [unescape(link) for link in re.findall(r'href="(/api/v1/kpi-history\.[^"]*)"', page)]
    table, picture = files
    rows = read_csv(read_month, table)
    assert [row["runId"] for row in rows] == list(
        dict.fromkeys(re.findall(r'"/runs/(run-[^"]+)"', page))
    )[::-1]
    assert (rows[0]["runId"], rows[0]["verdict"], rows[0]["confirms"]) == (RUN, "REGRESSED", "")
    assert {row["kpi"] for row in rows} == {"pass rate"}
    chart = read_month.client.get(picture)
    assert chart.headers["content-type"] == "image/svg+xml"
    lines = re.findall(r'<polyline class="line" points="([^"]+)"', chart.text)
    assert lines == re.findall(r'<polyline class="line" points="([^"]+)"', page)
    assert "pass rate of Billing bot in Support, nightly" in chart.text
    assert "lower threshold 0.8" in chart.text


def test_trend__picture_refuses_what_does_not_exist(read_month: Service) -> None:
    path = "/api/v1/kpi-history.svg?benchmarkId=support&kpi=support-pass"
    assert read_month.client.get(f"{path}&agentId=nobody").status_code == 404
    assert read_month.client.get(f"{path}&agentId=billing&timeZone=Mars").status_code == 422
    assert read_month.client.get(f"{path}&agentId=billing").status_code == 200


def test_help__is_linked_and_names_every_verdict_key_and_address(service: Service) -> None:
    assert 'href="/help"' in read_page(service, "/")
    page = read_page(service, "/help")
    content = page[page.index("<main") : page.index("</main>")]
    script = (FOLDER / "app.js").read_text()
    keys = set(re.findall(r'event\.key === "(.)"', script)) | set("jkoasx")
    assert keys <= set(re.findall("<kbd>(.)</kbd>", content))
    words = {
        re.sub("[^a-z]+", " ", words).strip() for words in re.findall(r'badge ([a-z-]+)"', content)
    }
    assert words == {verdict.replace("_", " ").lower() for verdict in Verdict}
    for address in re.findall(r'href="(/[^"]+)"', content):
        assert service.client.get(address, headers=HTML).status_code == 200, address


def test_trend__several_agents_share_a_chart_and_a_table(read_month: Service) -> None:
    path = "/benchmarks/support/kpis/support-pass?days=30"
    page = read_page(read_month, f"{path}&agent=billing&agent=sql")
    svg = page[page.index('<svg class="chart"') :]
    svg = svg[: svg.index("</svg>")]
    lines = re.findall(r'<polyline class="line" points="[^"]+"[^>]*>', svg)
    # Each agent has a line and a sample of it beside its name.
    assert len(lines) == 4
    assert len({re.sub('points="[^"]+"', "", line) for line in lines}) == 2
    assert svg.count("data-point") == 60
    assert "<title>Billing bot, " in svg
    assert "<title>SQL copilot, " in svg
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    assert {
        row.count("<td>Billing bot</td>") + row.count("<td>SQL copilot</td>") for row in rows
    } == {1}
    assert len(rows) == 60
    [table, picture] = [
        unescape(link) for link in re.findall(r'href="(/api/v1/kpi-history\.[^"]*)"', page)
    ]
    assert {row["agentId"] for row in read_csv(read_month, table)} == {"billing", "sql"}
    assert "pass rate of Billing bot and SQL copilot" in read_month.client.get(picture).text
    five = "".join(f"&agent=agent-{number}" for number in range(5))
    assert read_month.client.get(f"{path}{five}", headers=HTML).status_code == 422


def test_compare__flipped_items_are_ordered_and_can_be_shown_alone(read_month: Service) -> None:
    path = f"/compare?base=run-billing-support-1&run={RUN}"

    def read_items(query: str) -> list[str]:
        return re.findall(
            r'<th scope="row" class="name"><code>([^<]+)</code>',
            read_page(read_month, path + query),
        )

    worst_first = read_items("")
    comparison = read_json(
        read_month, f"/benchmark-runs/compare?baseline=run-billing-support-1&candidate={RUN}"
    )
    assert worst_first == [item["itemId"] for item in comparison["flippedItems"]["items"]]
    assert len(set(worst_first)) == 10
    assert read_items("&sort=rise") == worst_first[::-1]
    assert read_items("&sort=item") == sorted(worst_first)
    assert 'id="metrics"' in read_page(read_month, path)
    flips = read_page(read_month, f"{path}&only=flips&sort=item")
    assert 'id="metrics"' not in flips
    assert 'id="flips"' in flips
    swap = unescape(re.findall(r'href="(/compare[^"]*)">Swap', flips)[0])
    assert "only=flips&sort=item" in swap
    assert read_month.client.get(f"{path}&sort=worst", headers=HTML).status_code == 422


def test_compare__several_bases_and_the_judged_values_are_those_of_the_api(month: Service) -> None:
    with month.resources.db.begin() as session:
        write_traces(session, "run-billing-support-2", broken=29)
    bases = ["run-billing-support-1", "run-billing-support-2"]
    sent = {
        "base": bases[0],
        "baseId": "",
        "run": RUN,
        "runId": "",
        "judge": ["pass rate", "LATENCY_MS"],
    }
    typed = month.client.get("/compare", params={**sent, "baseId": " ".join(bases)}, headers=HTML)
    chosen = month.client.get("/compare", params={**sent, "base": [*bases, ""]}, headers=HTML)
    assert typed.headers["location"] == chosen.headers["location"]
    page = read_page(month, chosen.headers["location"])
    [address] = re.findall(r'rel="alternate" type="application/json" href="([^"]+)"', page)
    comparison = month.client.get(unescape(address)).json()
    assert comparison["baselineRunIds"] == bases
    assert comparison["judged"] == ["pass rate", "LATENCY_MS"]
    assert unescape(comparison["verdict"]["explanation"]).replace(" %", "\xa0%") in unescape(page)
    # The form has what the address has.
    form = page[page.index('<form action="/compare">') :]
    form = form[: form.index("</form>")]
    assert re.findall(r'value="([^"]+)" selected', form) == [bases[0], RUN, bases[1]]
    checked = re.findall(r'name="judge" value="([^"]+)" checked', form)
    assert set(checked) == {"pass rate", "LATENCY_MS"}
    # Half of the items passed in the second base: they flipped against the mean.
    [flipped, *_] = comparison["flippedItems"]["items"]
    row = page[page.index(f"<code>{flipped['itemId']}</code>") :]
    assert f'<td class="num">{flipped["baseline"]:g}</td>' in row[: row.index("</tr>")]
    # Every other form and link of the page keeps them.
    assert page.count('type="hidden" name="base"') == page.count('type="hidden" name="judge"') == 2
    for layout in (
        address for address in re.findall(r'<nav class="tabs".*?</nav>', page, re.DOTALL)
    ):
        assert layout.count("judge=LATENCY_MS") == layout.count(f"base={bases[1]}") == 2


def read_flips(page: str) -> dict[str, str]:
    """The row of each flipped item, by ID."""
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    return {re.findall("<code>([^<]+)</code>", row)[0]: row for row in rows}


BASES: Final = [f"run-billing-support-{number}" for number in (2, 1, 3)]


@pytest.fixture
def mean(month: Service) -> Service:
    """Ten items fell against the mean of three bases; in the first base they failed as well."""
    with month.resources.db.begin() as session:
        write_traces(session, BASES[0], broken=29)
        write_traces(session, BASES[2], broken=0)
    return month


def read_comparison_with_mean(service: Service) -> tuple[str, list[dict[str, Any]]]:
    """The page of a comparison with `BASES`, and the flipped items of the API."""
    page = read_page(service, f"/compare?{''.join(f'base={id_}&' for id_ in BASES)}run={RUN}")
    query = "".join(f"baseline={id_}&" for id_ in BASES)
    compared = read_json(service, f"/benchmark-runs/compare?{query}candidate={RUN}")
    assert "Flipped items · 10 fell, 0 rose" in page
    return page, compared["flippedItems"]["items"]


def test_compare__flipped_items_change_as_the_mean_of_several_bases_says(mean: Service) -> None:
    page, items = read_comparison_with_mean(mean)
    rows = read_flips(page)
    assert list(rows) == [item["itemId"] for item in items]
    for item in items:
        assert item["change"] < 0
        row = rows[item["itemId"]]
        assert re.search("regressed[^<]*>.*fell", row)
        # The trials of one base would say otherwise than the mean.
        assert f'<td class="num">{item["baseline"]:.4g}</td>' in row
        assert f"item={item['itemId']}&base={BASES[0]}" in unescape(row)


def test_compare__flipped_items_that_the_first_base_lacks_are_shown(mean: Service) -> None:
    run = f"(SELECT {{}} FROM benchmark_runs WHERE id = '{BASES[0]}')"
    with mean.resources.db.begin() as session:
        for table, of_run in (
            ("trace_results", f"run_seq = {run.format('seq')}"),
            ("collected_traces", f"collection_id = {run.format('collection_id')}"),
        ):
            session.execute(text(f"DELETE FROM {table} WHERE {of_run} AND position < 3"))
    page, items = read_comparison_with_mean(mean)
    rows = read_flips(page)
    assert list(rows) == [item["itemId"] for item in items]
    assert len(rows) == 10
    assert f"item=case-000&base={BASES[1]}" in unescape(rows["case-000"])
    assert f"item=case-001&base={BASES[0]}" in unescape(rows["case-001"])


def test_compare__further_bases_share_one_list_of_suggestions(read_month: Service) -> None:
    # Older than the recent runs, so that the choices are too many for a list.
    bases = [f"run-{agent}-support-{n}" for agent in ("billing", "sql") for n in range(16, 30)]
    page = read_page(read_month, f"/compare?{''.join(f'base={id_}&' for id_ in bases)}run={RUN}")
    assert page.count('list="base-names"') == len(bases)
    assert page.count('<datalist id="base-names">') == 1


def test_run__comparison_is_with_the_baselines_that_have_traces(month: Service) -> None:
    bases = [f"run-billing-support-{number}" for number in (1, 2, 3)]

    def read_address() -> str:
        [address] = set(
            re.findall(r'href="(/compare[^"]+)">compare', read_page(month, f"/runs/{RUN}"))
        )
        return unescape(address)

    def purge(run_ids: list[str]) -> None:
        with month.resources.db.begin() as session:
            session.execute(
                text("UPDATE benchmark_runs SET purged_at = now() WHERE id = ANY(:ids)"),
                {"ids": run_ids},
            )

    with month.resources.db.begin() as session:
        write_traces(session, bases[1], broken=0)
        run = session.scalars(select(BenchmarkRun).where(BenchmarkRun.id == RUN)).one()
        assert run.verdict is not None
        baseline = BaselineRuns(mode=BaselineSelection.MEAN_OF_LAST, run_ids=(*bases, "deleted"))
        run.verdict = run.verdict.model_copy(update={"baseline": baseline})
    purge(bases[2:])
    assert read_address() == f"/compare?base={bases[0]}&base={bases[1]}&run={RUN}"
    assert "the mean of base" in read_page(month, read_address())
    # Without any, the page of the comparison says what is missing.
    purge(bases)
    assert read_address() == f"/compare?base={bases[0]}&run={RUN}"
