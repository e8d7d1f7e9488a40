"""The distributions that count as the environment of the service."""

from benchmarks.environment import SERVICE, measure, required_by


def test_required_by__has_what_the_service_needs_and_no_extras() -> None:
    parents = required_by(SERVICE)

    assert SERVICE in parents["scipy"]
    # Through procrastinate, or by the extra `binary` of psycopg.
    assert "psycopg" in parents["psycopg-binary"]
    # An extra of ours, and a tool of development.
    assert not {"pyarrow", "pandas", "pytest"} & parents.keys()


def test_measure__rows_of_large_distributions_end_with_the_total() -> None:
    *rows, total = measure()

    assert [row.name for row in rows][:1] == ["scipy"]
    assert total.name == "environment"
    assert total.ratio > sum(row.ratio for row in rows)
