"""Values of the API as the inputs of a form show them."""

import pytest

from app.core.web.forms.fields import InputKind
from app.core.web.forms.rendering import FieldInput, write_value


@pytest.mark.parametrize(
    ("value", "text_in_form"),
    [(600.0, "600"), (0.1, "0.1"), (123456.789, "123456.789"), (1500000.0, "1500000"), (12, "12"), (0.0, "0")],
)  # fmt: skip
def test_input__shows_a_number_with_all_digits(value: float, text_in_form: str) -> None:
    """A form that is saved unchanged must not round a stored threshold."""
    text = write_value(InputKind.NUMBER, value, FieldInput())
    assert text == text_in_form
    assert float(text) == value
