"""The answers of a reader to an incident: noise, or a new level."""

import pytest

from mosaico.alerts.evaluation.incident_rules import (
    accept_level,
    return_runs,
    with_noise,
    without_noise,
)
from mosaico.kpis.series_types import SeriesEvent, SeriesState, SeriesStatus
from tests.unit.alerts.incident_series import Series, firing


def test_accept_level__the_incident_becomes_the_reference() -> None:
    series = firing()
    series.add_around(0.5, 6)
    series.state = accept_level(series.state)
    assert series.state.reference == tuple(range(21, 28))
    assert series.add_around(0.5, 10).status is SeriesStatus.OK
    assert series.add(0.25).event is SeriesEvent.OPENED


def test_return_runs__noise_joins_the_reference_and_no_window() -> None:
    series = firing()
    series.state = return_runs(series.state)
    assert not series.is_open()
    assert series.state.reference == tuple(range(1, 22))
    # No window of last runs finds the same incident again.
    assert series.add_around(0.8, 1).since == 22


def test_with_noise__of_an_incident_that_recovered_returns_its_bad_runs() -> None:
    series = firing()
    series.add_around(0.8, 8)
    assert not series.is_open()
    assert 21 not in series.state.reference
    assert 21 in with_noise(series.state, [21]).reference


@pytest.mark.parametrize("noise_count", [1, 3, 9])
def test_without_noise__takes_back_what_with_noise_did(noise_count: int) -> None:
    state = SeriesState(reference=(3, 4, 5, 6))
    noise = range(7, 7 + noise_count)
    mixed = with_noise(state, noise)
    assert {*mixed.reference} >= {*noise}
    assert without_noise(mixed, noise).reference == state.reference
    # Another incident stays noise.
    assert without_noise(mixed, [99]) == mixed
    assert without_noise(SeriesState(), [1]) == SeriesState()


@pytest.mark.parametrize("has_one_answer", [True, False])
@pytest.mark.parametrize("noise_runs", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_return_runs__a_lasting_fall_of_the_size_of_the_noise_pages(
    noise_runs: int, has_one_answer: bool, seed: int
) -> None:
    series = Series(seed=seed)
    series.add_around(0.8, 12)
    for _ in range(noise_runs):
        series.add_around(0.5, 1)
        if not has_one_answer:
            series.state = return_runs(series.state)
    series.state = return_runs(series.state)
    series.add_around(0.8, 5)
    assert not series.is_open()
    series.add_around(0.5, 10)
    assert series.is_open()


def test_accept_level__without_an_incident_nothing_changes() -> None:
    series = Series()
    series.add_around(0.8, 3)
    assert accept_level(series.state) == return_runs(series.state) == series.state
