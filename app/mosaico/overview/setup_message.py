"""The message of a bad night as a setup shows it: written by the code that writes the messages of alerts, about a night
that is invented.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from statistics import fmean

from mosaico.alerts.details import AlertDetails
from mosaico.alerts.messages import DisplayNames, render_alerts
from mosaico.alerts.rules import AlertEventState
from mosaico.comparison.attribute_names import OTHER_RANK, is_identifier, rank_of, split_feature
from mosaico.core.defaults import BASELINE_RUNS
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.metrics.measures import Measure
from mosaico.metrics.types import Direction
from mosaico.notifications.message_layout import MessageLayout, build_layout
from mosaico.notifications.types import MessageSeverity, PublishedMessage
from mosaico.overview.setup_fields import Setup
from mosaico.run_store.recorded_attributes import (
    AttributeDifference,
    DifferenceKind,
    WhatChanged,
)
from mosaico.traces.types import Trace

# What a night has of a measure whose values are not in the file.
USUAL_GOOD, USUAL_BAD = 0.9, 0.1
# The change and its interval as parts of the value before.
CHANGE, LEAST, MOST = 0.3, 0.15, 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class _BadNight:
    """An alert that is not stored."""

    name: str
    details: AlertDetails
    created_at: datetime
    value: float
    baseline: float
    benchmark_id: str
    agent_id: str
    explanation: str = ""
    id: str = "ALERT"
    rule_id: str | None = "RULE"
    run_id: str | None = "RUN"
    incident_id: str | None = "INCIDENT"
    state: str = AlertEventState.FIRING
    severity: str = MessageSeverity.WARNING


def write_bad_night(
    setup: Setup,
    decider: Measure,
    agent: str,
    traces: Sequence[Trace],
    now: datetime,
    zone: tzinfo,
    public_url: str,
) -> MessageLayout:
    """The message of a night on which the measure that decides got worse by three tenths of its value in `traces`."""
    values = _values(decider, traces)
    is_share = all(0 <= value <= 1 for value in values)
    is_low_good = setup.direction is Direction.LOWER_IS_BETTER
    baseline = (fmean(values) if values else 0) or (USUAL_BAD if is_low_good else USUAL_GOOD)
    # A share never rises above 1.
    limit = 1 - baseline if is_share and is_low_good else math.inf
    sizes = (min(part * abs(baseline), limit) for part in (CHANGE, LEAST, MOST))
    change, *bounds = (size if is_low_good else -size for size in sizes)
    low, high = sorted(bounds)
    evidence = RunsEvidence(
        status=SeriesStatus.FIRING, event=SeriesEvent.OPENED, limit=0, width=1, reference=BASELINE_RUNS,
        level=baseline + change, reference_level=baseline, effect=change, low=low, high=high,
    )  # fmt: skip
    alert = _BadNight(
        name=f"{decider.name} regressed", benchmark_id=setup.name, agent_id=agent, created_at=now,
        value=baseline + change, baseline=baseline,
        details=AlertDetails(
            value_name=decider.name, unit=decider.unit, is_share=is_share,
            runs=evidence, since=now, what_changed=_what_changed(traces),
        ),
    )  # fmt: skip
    message = render_alerts([alert], lambda _: DisplayNames(setup.name, agent, zone))
    published = PublishedMessage(
        id="MESSAGE", published_at=now, message=message, public_url=public_url
    )
    return build_layout(published, max_items=1)


def _values(decider: Measure, traces: Sequence[Trace]) -> list[float]:
    """The values of the measure that the rows have: a score, the cost or the latency."""
    match decider.key:
        case "cost":
            values = [trace.cost_usd for trace in traces]
        case "latency":
            values = [trace.latency_ms for trace in traces]
        case key:
            values = [trace.scores.get(key.removeprefix("score:")) for trace in traces]
    return [value for value in values if value is not None]


def _what_changed(traces: Sequence[Trace]) -> WhatChanged:
    """What the rows record; of a model, a prompt or a release the first one has an invented change."""
    recorded = dict(split_feature(f"tag:{tag}") for trace in traces for tag in trace.all_tags)
    names = sorted((name for name in recorded if not is_identifier(name)), key=rank_of)
    changed = [name for name in names[:1] if rank_of(name) < OTHER_RANK]
    differences = (
        AttributeDifference(
            name=name, kind=DifferenceKind.VALUE, before=recorded[name], after="another", fell=3, others=7, share=1
        )
        for name in changed
    )  # fmt: skip
    return WhatChanged(
        has_attributes=bool(names), differences=tuple(differences), same=tuple(names[len(changed) :]),
        items=10, fell=3, others=7,
    )  # fmt: skip
