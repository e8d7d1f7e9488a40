"""Plugins that register objects which are neither a metric nor a source."""

from collections.abc import Callable


def register(add: Callable[..., object]) -> None:
    add("SAMPLE_UNFIT", object)


def register_source(add: Callable[..., object]) -> None:
    add("sample-unfit", object())
