"""Forms of pages: any names and values are read, or have an error beside the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.agents.pages import FORM as AGENT_FORM
from mosaico.benchmarks.pages import FORM as BENCHMARK_FORM
from mosaico.core.clock import zone_names
from mosaico.core.web.forms.body import read_form_body
from mosaico.core.web.forms.sent_fields import FormFields

ROWS = "triggers.langfuse"
NUMBERS = st.one_of(st.text("0123456789", max_size=12), st.just("9" * 5000), st.text(max_size=3))
NAMES = st.one_of(
    st.sampled_from(["name", "id", "runUrl", "triggers", ROWS, "judgeCalibration.answers"]),
    st.builds("triggers.langfuse.{}.type".format, NUMBERS),
    st.builds("judgeCalibration.answers.{}.score".format, NUMBERS),
    st.text(max_size=20),
)
VALUES = st.one_of(NUMBERS, st.sampled_from(["--5", "nan", "[" * 5000, "a=1", "=", "\x00"]))


@given(st.dictionaries(NAMES, st.lists(VALUES, max_size=2), max_size=6), st.booleans())
def test_form__any_fields_are_read(fields: dict[str, list[str]], is_edit: bool) -> None:
    for form in (AGENT_FORM, BENCHMARK_FORM):
        sent = FormFields({name: values for name, values in fields.items() if values})
        read_form_body(form, sent, is_edit=is_edit, choices={})


@pytest.mark.parametrize("number", ["9" * 5000, "x", "\u0663"], ids=["digits", "text", "arabic"])
def test_form__row_with_a_wrong_number_has_an_error(number: str) -> None:
    sent = FormFields({f"{ROWS}.{number}.type": ["x"]})
    form = read_form_body(BENCHMARK_FORM, sent, is_edit=False, choices={})
    assert "number is not valid" in form.errors[ROWS]


def test_zones__of_the_machine_are_no_names() -> None:
    assert not zone_names() & {"Factory", "localtime", "posixrules"}
    assert {"UTC", "Europe/Rome"} <= zone_names()
