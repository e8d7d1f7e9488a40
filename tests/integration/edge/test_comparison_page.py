"""The page of a comparison: flipped items, several bases, and links to it."""

import re
from html import unescape
from typing import Any, Final

import pytest
from sqlalchemy import select, text

from mosaico.kpis.verdict_types import BaselineRuns, BaselineSelection
from mosaico.run_store.models import BenchmarkRun
from tests.support.every_page import RUN
from tests.support.page_data import write_traces
from tests.support.page_reads import HTML, read_json, read_page
from tests.support.service import Service

BASES: Final = [f"run-billing-support-{number}" for number in (2, 1, 3)]


def read_flips(page: str) -> dict[str, str]:
    """The row of each flipped item, by ID."""
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    return {re.findall("<code>([^<]+)</code>", row)[0]: row for row in rows}


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
    checked = re.findall(r'name="judge" value="([^"]+)"\s+checked', form)
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


def test_compare__the_question_is_chosen_on_the_page(read_month: Service) -> None:
    path = f"/compare?base=run-billing-support-1&run={RUN}"
    for choice, method in (("POPULATION", "beyond these tasks"), ("TASKS", "on these tasks")):
        page = read_page(read_month, f"{path}&about={choice}")
        assert re.search(rf'<option value="{choice}" selected>', page)
        compared = read_json(
            read_month,
            f"/benchmark-runs/compare?baseline=run-billing-support-1&candidate={RUN}&about={choice}",
        )
        judged = [row for row in compared["metrics"] if row["metric"] in compared["judged"]]
        assert {row["verdict"]["about"] for row in judged} == {choice}
        assert method in page
        # The other forms and links of the page keep it.
        assert f"about={choice}" in unescape(re.findall(r'href="(/compare[^"]*)">Swap', page)[0])
    assert re.search(r'<option value="" selected>', read_page(read_month, path))
    assert read_month.client.get(f"{path}&about=ALL", headers=HTML).status_code == 422
