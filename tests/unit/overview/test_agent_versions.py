"""The version of an agent, by what the traces of a run record."""

from collections.abc import Mapping

import pytest

from mosaico.overview.agent_versions import VersionNames, version_names
from mosaico.run_store.recorded_attributes import AttributeProfile, ValueCount


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"model": {"m": 40}, "promptVersion": {"v15": 40}}, VersionNames("m", "v15")),
        ({"agent.modelName": {"m": 40}}, VersionNames("m", None)),
        ({"promptName": {"support": 40}, "promptVersion": {"15": 40}}, VersionNames(None, "support 15")),
        ({"release": {"2.1": 40}}, VersionNames(None, "2.1")),
        ({"release": {"2.1": 40}, "promptVersion": {"v15": 40}}, VersionNames(None, "v15")),
        # A route to two models, and a third one in 3 of 40 items, less than a tenth.
        ({"model": {"a": 20, "b": 17, "c": 3}}, VersionNames("a + b", None)),
        ({"category": {"x": 40}}, VersionNames(None, None)),
    ],
)  # fmt: skip
def test_version__is_the_recorded_model_and_prompt(
    values: Mapping[str, Mapping[str, int]], expected: VersionNames
) -> None:
    profile = AttributeProfile(
        items=40,
        values={
            name: tuple(ValueCount(value=value, items=count) for value, count in counts.items())
            for name, counts in values.items()
        },
    )
    assert version_names(profile) == expected


def test_version__digest_tells_versions_apart() -> None:
    names = [VersionNames("a", "b"), VersionNames("b", "a"), VersionNames("a", None)]
    assert len({version.digest for version in names}) == 3
