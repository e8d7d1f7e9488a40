"""The page of formulas leads to the answer of the API that has what it shows: help, check or value in a run."""

import json
import re
import shlex
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.every_page import RUN, write_every_page
from tests.support.page_reads import read_page
from tests.support.service import Service


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
    return module_service


def open_formula(service: Service, **query: str) -> tuple[str, str, Any]:
    """The page, the address of its command to copy, and the answer of that command."""
    page = read_page(service, f"/formulas?{urlencode(query)}")
    [command] = re.findall(r'data-copy="(curl [^"]+)"', page)
    words = shlex.split(unescape(command))
    if "--json" not in words:
        return page, words[-1], service.client.get(words[-1]).json()
    body = json.loads(words[words.index("--json") + 1])
    return page, words[-1], service.client.post(words[-1], json=body).json()


@pytest.mark.parametrize("query", [{}, {"run": RUN}])
def test_formulas__wrong_formula_is_its_check(query: dict[str, str], service: Service) -> None:
    page, address, answer = open_formula(service, formula="AVERAGE(EXACT_MATCH,ROUG", **query)
    assert address.endswith("/validate")
    assert not answer["valid"]
    assert answer["errors"]
    assert all(error["message"] in unescape(page) for error in answer["errors"])
    # It copies what links have, and those are followed with GET.
    assert "Copy JSON" not in page


def test_formulas__correct_formula_is_its_canonical_form(service: Service) -> None:
    page, _, answer = open_formula(service, formula="average( exact_match , latency )")
    assert (answer["valid"], answer["formula"]) == (True, "AVERAGE(EXACT_MATCH, LATENCY)")
    assert f"<code>{answer['formula']}</code>" in page


def test_formulas__value_in_a_run_has_its_parts(service: Service) -> None:
    formula = 'EXACT_MATCH + THRESHOLD(EXACT_MATCH.p95, 0.5) * SCORE["tone"]'
    page, address, answer = open_formula(service, formula=formula, run=RUN)
    assert address.endswith("/evaluate")
    assert answer["value"] is None
    assert answer["undefinedReason"].startswith('SCORE["tone"] has no value')
    first, product = answer["parts"]
    assert (first["formula"], product["value"]) == ("EXACT_MATCH", None)
    assert f"<code>EXACT_MATCH</code> = <b data-numbers>{first['value']:.4g}</b>" in page
    assert [part["formula"] for part in product["parts"]][-1] == 'SCORE["tone"]'


def test_formulas__typed_values_replace_those_of_a_run(service: Service) -> None:
    typed = "EXACT_MATCH=0.5\n  ROUGE.p95 = 0,25 \n"
    page, address, answer = open_formula(service, formula="EXACT_MATCH + ROUGE.p95", values=typed)
    assert address.endswith("/evaluate")
    assert answer["value"] == 0.75
    assert "= <b data-numbers>0.75</b>" in page
    assert "Open the run" not in page
    formula = "EXACT_MATCH + EXACT_MATCH.p95"
    _, _, of_run = open_formula(service, formula=formula, run=RUN)
    page, _, answer = open_formula(service, formula=formula, run=RUN, values="EXACT_MATCH=100000")
    assert [part["value"] for part in answer["parts"]] == [100_000, of_run["parts"][1]["value"]]
    assert "Open the run" in page


@pytest.mark.parametrize("line", ["ROUGE", "ROUGE=much", "ROUGE=nan", "RUGE OF=1", "=1"])
def test_formulas__line_without_a_value_is_named(line: str, service: Service) -> None:
    page, _, answer = open_formula(service, formula="BLEU", values=f"BLEU=0.5\n{line}")
    assert f"No value: {line}. Write the name" in page
    assert answer["value"] == 0.5
