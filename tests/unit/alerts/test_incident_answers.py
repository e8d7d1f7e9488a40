"""The answers of a reader to an incident: noise, or a new level."""

import pytest

from mosaico.alerts.evaluation.incident_rules import (
    accept_level,
    return_runs,
    with_noise,
    without_noise,
)
from mosaico.kpis.series_types import OpenIncident, SeriesEvent, SeriesState, SeriesStatus
from mosaico.statistics.sequential import limit_of
from tests.unit.alerts.incident_series import Series, firing, recovered_from_a_small_fall


def test_with_noise__of_an_incident_that_recovered_gives_its_part_of_the_promise_back() -> None:
    series = recovered_from_a_small_fall()
    last = len(series.levels)
    series.state = with_noise(series.state, range(21, last + 1))
    assert 21 in series.state.levels[-1]
    assert series.add_around(0.8, 1).limit == limit_of(0.25)


def test_accept_level__the_incident_becomes_the_reference() -> None:
    series = firing()
    series.add_around(0.5, 6)
    series.state = accept_level(series.state)
    assert series.state.levels[-1] == tuple(range(21, 28))
    assert series.add_around(0.5, 10).status is SeriesStatus.OK
    assert series.add(0.25).event is SeriesEvent.OPENED


def test_return_runs__noise_joins_the_reference() -> None:
    series = firing()
    series.state = return_runs(series.state)
    assert not series.is_open()
    # As the oldest runs: no window of last runs finds the same incident again.
    assert series.state.levels[-1] == (21, *range(1, 21))


@pytest.mark.parametrize("noise_count", [1, 3, 9])
def test_without_noise__takes_back_what_with_noise_did(noise_count: int) -> None:
    """Also after further runs; ordinary runs and recovered runs of the incident stay."""
    state = SeriesState(levels=((1, 2), (3, 4, 5, 6)))
    noise = range(7, 7 + noise_count)
    mixed = with_noise(state, noise)
    assert {run for level in mixed.levels for run in level} >= {*noise}
    assert without_noise(mixed, noise) == state
    later = mixed.model_copy(update={"levels": (*mixed.levels[:-1], (*mixed.levels[-1], 30, 31))})
    assert without_noise(later, [*noise, 30]).levels == ((1, 2), (3, 4, 5, 6, 30, 31))
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
    series.add_around(0.8, 3)
    assert not series.is_open()
    series.add_around(0.5, noise_runs + 1)
    assert series.is_open()


def test_return_runs__more_noise_than_other_runs_stays_before_them() -> None:
    state = SeriesState(
        levels=((5, 1, 2),),
        incident=OpenIncident(started=6, opened=6, runs=(6, 7, 8), level_runs=(6,)),
    )
    assert return_runs(state).levels == ((5, 6, 7, 1, 8, 2),)


def test_accept_level__without_an_incident_nothing_changes() -> None:
    series = Series()
    series.add_around(0.8, 3)
    assert accept_level(series.state) == return_runs(series.state) == series.state
