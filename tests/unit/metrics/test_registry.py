"""The registry turns the name of a metric into a provider."""

import json
from pathlib import Path
from typing import Any

import pytest

from mosaico.core.errors import Invalid, NotFound
from mosaico.metrics.registry import (
    METRICS,
    InvalidMetric,
    column_of,
    default_refs,
    load_metrics,
    names_of,
    option_errors,
    options_of,
    parse_ref,
    provider_for,
    providers_for,
    ref_of_column,
    version_with,
)
from mosaico.metrics.types import MetricRef, MetricSpec
from mosaico.traces.types import Trace


@pytest.fixture(autouse=True)
def _loaded() -> None:
    load_metrics()


def test_metric_reference__name_or_object_with_options_is_accepted() -> None:
    assert parse_ref("ROUGE") == MetricRef.of("ROUGE")
    assert parse_ref({"key": "ROUGE"}) == MetricRef.of("ROUGE")
    with_options = parse_ref({"key": "ROUGE", "options": {"useStemmer": True}})
    assert with_options == MetricRef(key="ROUGE", options=(("useStemmer", True),))


@pytest.mark.parametrize(
    "value",
    [7, None, {}, {"key": 7}, {"key": "ROUGE", "option": {}}, ["ROUGE"]],
)
def test_metric_reference__other_forms_are_rejected(value: object) -> None:
    with pytest.raises(Invalid, match="a metric is a name or"):
        parse_ref(value)


@pytest.mark.parametrize("options", [[], "useStemmer", {"useStemmer": None}, {"useStemmer": [1]}])
def test_metric_options__non_scalar_values_are_rejected(options: object) -> None:
    with pytest.raises(Invalid, match="options of ROUGE are an object"):
        parse_ref({"key": "ROUGE", "options": options})


def test_unknown_metric__error_suggests_the_nearest_name() -> None:
    with pytest.raises(NotFound, match=r"'ROGUE'.*Did you mean ROUGE"):
        provider_for(MetricRef.of("ROGUE"))


def test_unknown_option__error_suggests_the_nearest_name() -> None:
    with pytest.raises(Invalid, match=r"ROUGE has no option 'usestemer'.*Did you mean useStemmer"):
        provider_for(MetricRef.of("ROUGE", {"usestemer": True}))
    with pytest.raises(Invalid, match=r"BLEU has no option 'x'\. Known: "):
        provider_for(MetricRef.of("BLEU", {"x": 1}))


# In Python `1 == True` and `0.0 == False`: the type decides, not the equality.
@pytest.mark.parametrize("value", [1, "true", 0.0])
def test_metric_option__value_of_another_type_is_rejected(value: float | str) -> None:
    with pytest.raises(Invalid, match="option useStemmer of ROUGE takes a bool such as False"):
        provider_for(MetricRef.of("ROUGE", {"useStemmer": value}))


def test_metric_option__changes_version_and_value() -> None:
    plain, stemmed = providers_for(
        (MetricRef.of("ROUGE"), MetricRef.of("ROUGE", {"useStemmer": True}))
    )
    assert (plain.spec.version, stemmed.spec.version) == ("2", "2+useStemmer")


def test_metric_version__contains_every_option_in_use() -> None:
    # What is off leaves the version as it is: a new option must not invalidate stored values.
    assert version_with("3", use_stemmer=False, beta=0) == "3"
    assert version_with("3", use_stemmer=True, beta=2) == "3+beta=2+useStemmer"


def test_metric_alias__names_the_same_metric() -> None:
    assert provider_for(MetricRef.of("LATENCY")).spec.key == "LATENCY_MS"
    assert column_of("LATENCY") == column_of("LATENCY_MS") == "LATENCY_MS"
    assert ref_of_column("LATENCY") == MetricRef.of("LATENCY_MS")
    assert default_refs(["LATENCY", "LATENCY_MS"]) == (MetricRef.of("LATENCY_MS"),)
    assert "LATENCY" not in METRICS.names()
    assert names_of([MetricRef.of("LATENCY_MS")]) == {"LATENCY", "LATENCY_MS"}
    assert names_of([MetricRef.of("LATENCY")]) == {"LATENCY", "LATENCY_MS"}
    with pytest.raises(NotFound, match="Did you mean LATENCY"):
        provider_for(MetricRef.of("LATENCYY"))


def test_score_column__is_not_an_alias() -> None:
    # The name of a score is chosen by the agent, so it may be the alias of a metric.
    assert column_of('SCORE["LATENCY"]') == 'SCORE["LATENCY"]'
    assert ref_of_column('SCORE["LATENCY"]') == MetricRef.of("SCORE", {"name": "LATENCY"})


def test_metric_option__only_its_choices_are_accepted() -> None:
    labels = options_of(METRICS.get("RECALL"))[0]
    assert labels.choices == ("", "macro", "micro", "weighted", "binary")
    assert list(option_errors(MetricRef.of("RECALL", {"labels": "all", "x": 1}))) == [
        "labels",
        "x",
    ]


class Nameless:
    spec = MetricSpec(key="OTHER", description="", source="")

    def supports(self, trace: Trace) -> bool:  # noqa: ARG002
        return True

    def compute(self, trace: Trace) -> float:  # noqa: ARG002
        return 1.0


class Named(Nameless):
    spec = MetricSpec(key="NAMED", description="", source="")


class WithoutCompute:
    spec = MetricSpec(key="NAMED", description="", source="")
    supports = Nameless.supports


def needing(*, setting: object = None) -> Named:
    return Named()


def demanding(setting: str) -> Named:
    return Named()


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        (Nameless, "needs a MetricSpec with the key 'NAMED'"),
        (object, "needs a MetricSpec"),
        (WithoutCompute, r"has no method compute\(trace\)"),
        (needing, "option setting of NAMED needs a boolean, number or text"),
        (demanding, "setting"),
        ("no factory", "not callable"),
    ],
)
def test_registration__invalid_factory_is_rejected(factory: Any, complaint: str) -> None:
    with pytest.raises((InvalidMetric, TypeError), match=complaint):
        METRICS.register("NAMED", factory)
    assert "NAMED" not in METRICS.names()


@pytest.mark.parametrize("taken_name", ["ROUGE", "LATENCY"])
def test_registration__duplicate_name_or_alias_is_rejected(taken_name: str) -> None:
    with pytest.raises(ValueError, match=taken_name):
        METRICS.register("NAMED", Named, aliases=[taken_name])
    with pytest.raises(ValueError, match=taken_name):
        METRICS.register(taken_name, Named)
    assert METRICS.canonical_name("NAMED") == "NAMED"
    assert METRICS.find("NAMED") is None


def test_metric_docs__table_equals_the_registry() -> None:
    folder = Path(__file__).parents[3] / "docs"
    page = "".join(path.read_text("utf-8") for path in sorted(folder.glob("metrics*.md")))
    for key in METRICS.names():
        assert row_of(key) in page.splitlines(), f"docs/metrics.md lacks this line:\n{row_of(key)}"
        assert f"### {key}\n" in page, f"no page docs/metrics*.md has a section {key}"
    # Eight cells have nine bars; other tables of the page have fewer.
    documented = sum(line.startswith("| `") and line.count("|") == 9 for line in page.splitlines())
    assert documented == len(METRICS.names())


def row_of(key: str) -> str:
    """The line of one metric in the table of the documentation."""
    spec = METRICS.get(key)().spec
    options = ", ".join(
        f"`{option.name}` ({json.dumps(option.default)})" for option in options_of(METRICS.get(key))
    )
    low, high = (
        "open" if end is None else format(end, "g") for end in (spec.minimum, spec.maximum)
    )
    missing = "measured" if spec.measures_failures else "skipped"
    worst = missing if spec.worst is None else format(spec.worst, "g")
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
