"""Paths of pages that messages, reports and commands link to."""

from mosaico.core.web import page_paths


def test_run_page_path__quotes_the_id() -> None:
    assert page_paths.run_page_path("nightly/1 ?#") == "/runs/nightly%2F1%20%3F%23"


def test_comparison_page_path__quotes_both_ids() -> None:
    assert page_paths.comparison_page_path("a&b", "c=d") == "/compare?base=a%26b&run=c%3Dd"


def test_trace_page_path__quotes_both_ids() -> None:
    assert page_paths.trace_page_path("run-1", "a/b c") == "/runs/run-1/traces/a%2Fb%20c"
