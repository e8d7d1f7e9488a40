"""How the name of a metric becomes a provider."""

import json
from pathlib import Path

import pytest

from app.core.errors import Invalid, NotFound
from app.metrics.registry import (
    METRICS,
    default_refs,
    load_metrics,
    options_of,
    parse_ref,
    provider_for,
    providers_for,
    version_with,
)
from app.metrics.types import MetricRef


@pytest.fixture(autouse=True)
def _loaded() -> None:
    load_metrics()


def test_a_reference_is_a_name_or_an_object_with_options() -> None:
    assert parse_ref("ROUGE") == MetricRef.of("ROUGE")
    assert parse_ref({"key": "ROUGE"}) == MetricRef.of("ROUGE")
    with_options = parse_ref({"key": "ROUGE", "options": {"useStemmer": True}})
    assert with_options == MetricRef(key="ROUGE", options=(("useStemmer", True),))


@pytest.mark.parametrize(
    "value",
    [7, None, {}, {"key": 7}, {"key": "ROUGE", "option": {}}, ["ROUGE"]],
)
def test_any_other_form_of_a_reference_is_refused(value: object) -> None:
    with pytest.raises(Invalid, match="a metric is a name or"):
        parse_ref(value)


@pytest.mark.parametrize("options", [[], "useStemmer", {"useStemmer": None}, {"useStemmer": [1]}])
def test_options_that_are_no_object_of_scalars_are_refused(options: object) -> None:
    with pytest.raises(Invalid, match="options of ROUGE are an object"):
        parse_ref({"key": "ROUGE", "options": options})


def test_an_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match=r"'ROGUE'.*Did you mean ROUGE"):
        provider_for(MetricRef.of("ROGUE"))


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Invalid, match=r"ROUGE has no option 'usestemer'.*Did you mean useStemmer"):
        provider_for(MetricRef.of("ROUGE", {"usestemer": True}))
    with pytest.raises(Invalid, match=r"BLEU has no option 'x'\. It has none"):
        provider_for(MetricRef.of("BLEU", {"x": 1}))


@pytest.mark.parametrize("value", [1, "true", 0.0])
def test_an_option_of_another_type_is_refused(value: float | str) -> None:
    with pytest.raises(Invalid, match="option useStemmer of ROUGE takes a bool such as False"):
        provider_for(MetricRef.of("ROUGE", {"useStemmer": value}))


def test_an_option_changes_the_version_and_the_value() -> None:
    plain, stemmed = providers_for(
        (MetricRef.of("ROUGE"), MetricRef.of("ROUGE", {"useStemmer": True}))
    )
    assert (plain.spec.version, stemmed.spec.version) == ("1", "1+useStemmer")


def test_a_version_tells_every_option_in_use() -> None:
    assert version_with("3", use_stemmer=False, beta=0) == "3"
    assert version_with("3", use_stemmer=True, beta=2) == "3+beta=2+useStemmer"


def test_the_options_of_a_metric_are_those_of_its_factory() -> None:
    assert [option.name for option in options_of(METRICS.get("ROUGE"))] == ["useStemmer"]
    assert options_of(METRICS.get("BLEU")) == ()


def test_default_references_are_checked() -> None:
    assert default_refs(["BLEU"]) == (MetricRef.of("BLEU"),)
    with pytest.raises(NotFound):
        default_refs(["BLUE"])


def test_loading_twice_registers_nothing_twice() -> None:
    before = METRICS.names()
    load_metrics()
    assert METRICS.names() == before


def test_the_table_of_the_documentation_is_that_of_the_registry() -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for key in METRICS.names():
        assert row_of(key) in page.splitlines(), f"docs/metrics.md lacks this line:\n{row_of(key)}"
        assert f"### {key}\n" in page, f"docs/metrics.md has no section {key}"
    documented = sum(line.startswith("| `") and line.count("|") == 9 for line in page.splitlines())
    assert documented == len(METRICS)


def row_of(key: str) -> str:
    """The line of one metric in the table of the documentation."""
    spec = METRICS.get(key)().spec
    options = ", ".join(
        f"`{option.name}` ({json.dumps(option.default)})" for option in options_of(METRICS.get(key))
    )
    low, high = (
        "open" if end is None else format(end, "g") for end in (spec.minimum, spec.maximum)
    )
    worst = "skipped" if spec.worst is None else format(spec.worst, "g")
    cells = (
        f"`{key}`",
        spec.description.rstrip("."),
        spec.unit,
        f"{low} … {high}",
        spec.direction.value,
        worst,
        spec.version,
        options or "–",
    )
    return f"| {' | '.join(cells)} |"
