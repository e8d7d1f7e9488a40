"""The messages of errors."""

from mosaico.core.errors import AppError, Invalid


class WrappedError(AppError):
    """The file is damaged; restore it from a backup, or delete it
    and start again.

    Raised by the reader.
    """


def test_default_detail__is_the_whole_first_paragraph() -> None:
    expected = "The file is damaged; restore it from a backup, or delete it and start again."
    assert str(WrappedError()) == expected


def test_detail__replaces_the_docstring() -> None:
    assert str(Invalid("the name is empty; send one")) == "the name is empty; send one"
