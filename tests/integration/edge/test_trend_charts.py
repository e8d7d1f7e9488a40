"""The charts of a trend and their files: several agents."""

import re
from html import unescape

from tests.support.page_reads import HTML, read_csv, read_page
from tests.support.service import Service


def test_trend__several_agents_share_a_chart_and_a_table(read_month: Service) -> None:
    path = "/benchmarks/support/kpis/support-pass?days=30"
    page = read_page(read_month, f"{path}&agent=billing&agent=sql")
    svg = page[page.index('<svg class="chart overlay wide-only"') :]
    svg = svg[: svg.index("</svg>")]
    lines = re.findall(r'<polyline class="agent-line (a\d)" ', svg)
    assert len(set(lines)) == len(lines) == 2
    # The agent is named at the end of its line, in its color.
    names = re.findall(r'<text class="agent-name (a\d)"[^>]*>([^<]*)<', svg)
    assert {name for _, name in names} == {"Billing bot", "SQL copilot"}
    assert {color for color, _ in names} == set(lines)
    assert svg.count("data-point") == 60
    assert "<title>Billing bot, " in svg
    assert "<title>SQL copilot, " in svg
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    assert len(rows) == 30
    assert all(row.count('href="/runs/run-billing-support-') == 1 for row in rows)
    assert all(row.count('href="/runs/run-sql-support-') == 1 for row in rows)
    [table, picture] = [
        unescape(link) for link in re.findall(r'href="(/api/v1/kpi-history\.[^"]*)"', page)
    ]
    assert {row["agentId"] for row in read_csv(read_month, table)} == {"billing", "sql"}
    assert "pass rate of Billing bot and SQL copilot" in read_month.client.get(picture).text
    seven = "".join(f"&agent=agent-{number}" for number in range(7))
    assert read_month.client.get(f"{path}{seven}", headers=HTML).status_code == 422


def test_trend__an_agent_has_the_same_color_alone_with_others_and_in_another_benchmark(
    read_month: Service,
) -> None:
    def colors(path: str) -> dict[str, str]:
        page = read_page(read_month, path)
        found = re.findall(r'<text class="agent-name (a\d)"[^>]*>([^<]*)<', page)
        return {name: color for color, name in found}

    support = colors("/benchmarks/support/kpis/support-pass?agent=billing&agent=sql")
    warehouse = colors("/benchmarks/warehouse/kpis/warehouse-pass?agent=triage&agent=sql")
    assert support["SQL copilot"] == warehouse["SQL copilot"]
    assert len({*support.values(), *warehouse.values()}) == 3
