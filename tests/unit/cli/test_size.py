"""The size of an installation, by hand figures, and the tables of `docs/scaling.md`."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.core.errors import Invalid
from mosaico.sizing import REMEDIES, Part, SizingLoad, size_installation
from mosaico.sizing_cli import format_bytes, format_cores, format_share
from tests.support import scaling_tables

# 36 million traces of 100 runs in ten hours: 1,000 traces a second.
LOAD = SizingLoad(traces=36_000_000, runs=100, metrics=("ROUGE",), retention_days=10, hours=10)


def test_size__by_hand() -> None:
    size = size_installation(LOAD)

    # ROUGE takes 12 µs and its words 14: 1,000 a second keep 0.026 cores busy.
    assert size.metric_cores == pytest.approx(0.026)
    # 70 µs beside it and 210 of the collection, and 90 ms for each of 100 runs in 36,000 s.
    assert size.cores == pytest.approx(0.026 + 0.07 + 0.21 + 0.09 * 100 / 36_000)
    assert size.langfuse_cores == pytest.approx(0.21)
    assert size.upload_cores == pytest.approx(0.033)
    assert size.workers == 1
    # One API and one scheduler have 50 connections, the worker 13.
    assert size.connections == 63
    # 970 bytes of texts and 175 of values; 72 kB of history per run.
    assert size.bytes_per_night == 36_000_000 * 1145 + 100 * 72_000
    assert size.bytes_per_second == size.bytes_per_night / 36_000
    assert size.stored_bytes == 36_000_000 * 1145 * 10
    assert size.history_bytes_per_year == 100 * 72_000 * 365
    # 100 traces a request, and six requests a run.
    assert size.langfuse_requests == 360_600
    assert size.langfuse_requests_per_minute == 601
    # 360,000 traces of one run, 20 µs each.
    assert size.finish_s == pytest.approx(7.2)


def test_size__ten_times_the_traces_need_ten_times_the_cores_and_bytes() -> None:
    small, large = size_installation(LOAD), size_installation(LOAD._replace(traces=360_000_000))

    assert large.metric_cores == pytest.approx(10 * small.metric_cores)
    assert large.stored_bytes == pytest.approx(10 * small.stored_bytes)


def test_size__limits_are_sorted_and_outgrown_ones_are_named() -> None:
    size = size_installation(LOAD._replace(traces=3_600_000_000))

    shares = [limit.share for limit in size.limits]
    assert shares == sorted(shares, reverse=True)
    # 60,001 requests a minute where 1,000 are answered, 41 TB of traces on a disk of 4 TB, twelve minutes of
    # finishing a run where ten are borne, and 114.5 MB a second where 100 are written.
    outgrown = [limit.part for limit in size.limits if limit.share > 1]
    assert outgrown == [Part.LANGFUSE, Part.DATABASE_DISK, Part.FINISH, Part.DATABASE_WRITES]
    # 14 workers have 232 of 400 connections; 31 of 64 cores are busy.
    strained = [limit.part for limit in size.strained]
    assert strained == [*outgrown, Part.CONNECTIONS]
    assert {limit.part for limit in size.limits} == set(Part) == set(REMEDIES)


def test_size__metrics_share_the_words_of_a_trace() -> None:
    # 12 of ROUGE and 13 of BLEU, their words 14 once; ACCURACY compares texts without words.
    both = size_installation(LOAD._replace(metrics=("ROUGE", "BLEU")))
    accuracy = size_installation(LOAD._replace(metrics=("ACCURACY",)))

    assert both.metric_cores == pytest.approx(0.039)
    assert accuracy.metric_cores == pytest.approx(0.004)


def test_size__unknown_metric_counts_as_the_most_expensive() -> None:
    unknown = size_installation(LOAD._replace(metrics=("MINE",)))

    # 1,000 traces a second of the most expensive built-in
    # metric: an estimate must not be too small.
    assert unknown.metric_cores == pytest.approx(0.027)


@pytest.mark.parametrize(
    # 99 traces of 100 runs: a run has at least one.
    "changes",
    [{"runs": 0}, {"traces": 99}, {"retention_days": 0}, {"hours": 0.0}],
)
def test_size__refuses_an_impossible_load(changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        size_installation(LOAD._replace(**changes))


def test_size_command__prints_the_same_as_the_model() -> None:
    arguments = ["size", "--traces", "36000000", "--runs", "100", "--metrics", "ROUGE"]
    arguments += ["--retention-days", "10", "--hours", "10"]
    document = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    table = CliRunner().invoke(cli, arguments).stdout

    assert document["metricCores"] == pytest.approx(0.026)
    assert document["langfuseRequests"] == 360_600
    assert "41.2 GB" in table  # written per night


def test_format__figures_have_no_more_digits_than_they_are_known_with() -> None:
    assert [format_cores(cores) for cores in (0.0106, 1.24, 98.2)] == ["under 1", "1.2", "98"]
    shares = [format_share(share) for share in (0.001, 0.16, 2.81, 278.1)]
    assert shares == ["under 0.01", "0.16", "2.8", "280"]


def test_format_bytes__has_three_digits() -> None:
    assert [format_bytes(count) for count in (0, 999, 1_140_000, 4e12)] == [
        "0 B",
        "999 B",
        "1.14 MB",
        "4 TB",
    ]


def test_scaling_page__has_the_tables_of_the_model() -> None:
    assert scaling_tables.PAGE.read_text() == scaling_tables.page(), (
        "run `python -m tests.support.scaling_tables`"
    )
