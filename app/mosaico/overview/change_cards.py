"""Changes as cards: the words, numbers and buttons that Morning shows of each."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts.alert_recipients import messages_of
from mosaico.alerts.models import AlertEvent
from mosaico.alerts.rules import IncidentResolution
from mosaico.comparison.change_text import format_amount, format_pair, format_value
from mosaico.comparison.change_view import WhatChangedView
from mosaico.comparison.change_view import view_changes as view_what_changed
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import format_day
from mosaico.core.web.sparklines import sparkline
from mosaico.kpis.number_text import FigureFormat, with_unit
from mosaico.notifications.models import Delivery
from mosaico.notifications.queries import endpoints_of
from mosaico.notifications.views import DeliveryRow, delivery_rows
from mosaico.overview.change_schemas import ChangedKpi, ChangeView, ValueComparison
from mosaico.overview.changes import FAILED, SAME_ANSWERS, ChangeGroup, ChangeOutcome, JudgedAs
from mosaico.overview.schemas import HeadlineKpi, Overview
from mosaico.statistics.verdict_rules import Scale, Verdict

# Further ones are one line each, which opens.
MAX_OPEN: Final = 10
_MAX_DELIVERIES: Final = 200
_CARD_WIDTH, _CARD_HEIGHT = 240, 64


class Badge(NamedTuple):
    """A state: symbol, words and the class of its color."""

    name: str
    text: str
    kind: str


class ComparisonText(NamedTuple):
    """A value before and now, its change with the interval, and what it is compared with."""

    before: str
    after: str
    delta: str
    interval: str
    against: str
    items: str


class OtherText(NamedTuple):
    """Another number of the run, with its own verdict."""

    name: str
    values: str
    verdict: Verdict | None


class RunAgainForm(NamedTuple):
    """The form that runs a benchmark again: its address and fields."""

    address: str
    fields: dict[str, str]


class ChangeCard(NamedTuple):
    """A change as Morning shows it. `main` is the interval to read, `more` are those behind it."""

    view: ChangeView
    badge: Badge
    main: ComparisonText | None
    more: Sequence[ComparisonText]
    value: str
    others: Sequence[OtherText]
    spark: Markup
    told: Sequence[DeliveryRow]
    run_again: RunAgainForm | None
    decides: bool
    ended_value: str
    line: str
    changes: WhatChangedView | None


def build_cards(session: Session, overview: Overview, zone: ZoneInfo) -> list[ChangeCard]:
    """The cards of the changes of a period, in their order."""
    headlines = {
        (cell.benchmark_id, cell.agent_id): cell.kpi for cell in overview.cells if cell.kpi
    }
    shown = [
        view for view in overview.changes if view.group in (ChangeGroup.NEW, ChangeGroup.ONGOING)
    ]
    told = _list_told(session, [id_ for view in shown[:MAX_OPEN] for id_ in view.incident_ids])
    return [
        _card(view, headlines.get((view.benchmark_id, view.agent_id)), told, zone)
        for view in overview.changes
    ]


def _card(
    view: ChangeView,
    headline: HeadlineKpi | None,
    told: Mapping[str, Sequence[DeliveryRow]],
    zone: ZoneInfo,
) -> ChangeCard:
    texts = [
        _comparison_text(comparison, view.kpi, zone)
        for comparison in (view.kpi.comparisons if view.kpi else ())
    ]
    main = texts[0] if texts else None
    is_shown = headline is not None and view.kpi is not None and headline.kpi_id == view.kpi.kpi_id
    return ChangeCard(
        view=view,
        badge=badge_of(view),
        main=main,
        more=texts[1:],
        value=_value_text(view.kpi),
        others=[_other_text(kpi) for kpi in view.others],
        spark=_spark(headline, view) if headline is not None and is_shown else Markup(),
        # Incidents of one night are told in one message.
        told=list(dict.fromkeys(row for id_ in view.incident_ids for row in told.get(id_, ()))),
        run_again=_run_again_form(view) if view.outcome in (FAILED, ChangeOutcome.INVALID) else None,
        decides=view.kpi is not None and view.decided_by == view.kpi.name,
        ended_value=_ended_text(view),
        line=_line(view, main),
        changes=view_what_changed(view.what_changed) if view.what_changed else None,
    )  # fmt: skip


def badge_of(view: ChangeView) -> Badge:
    """What a change is in its group."""
    outcome, kind = view.outcome, view.outcome.lower().replace("_", "-")
    if view.judgement and view.group is ChangeGroup.JUDGED:
        words = {
            JudgedAs.TRUE: "real",
            JudgedAs.NOISE: "false alarm",
            JudgedAs.ACCEPTED: "accepted",
        }
        return Badge(outcome, words[view.judgement.verdict], "judged")
    if view.group is ChangeGroup.RECOVERED:
        return _ended_badge(view)
    is_ongoing = view.group is ChangeGroup.ONGOING
    words_of = {
        ChangeOutcome.REGRESSED: "still worse" if is_ongoing else "regressed",
        ChangeOutcome.INVALID: "still invalid" if is_ongoing else "invalid: no number",
        FAILED: "still failing" if is_ongoing else "failed",
        ChangeOutcome.CHANGED: "changed",
        SAME_ANSWERS: "same answers again" if is_ongoing else "same answers",
    }
    return Badge(outcome, words_of[outcome], kind)


def _ended_badge(view: ChangeView) -> Badge:
    if view.outcome in (FAILED, ChangeOutcome.INVALID):
        return Badge("RECOVERED", "measured again", "improved")
    if view.outcome == SAME_ANSWERS:
        return Badge("RECOVERED", "new answers", "improved")
    if view.resolution in (None, IncidentResolution.RECOVERED):
        return Badge("RECOVERED", "recovered", "improved")
    return Badge(
        view.resolution or "",
        f"ended: {(view.resolution or '').replace('_', ' ').lower()}",
        "judged",
    )


def _comparison_text(
    comparison: ValueComparison, kpi: ChangedKpi | None, zone: ZoneInfo
) -> ComparisonText:
    scale, unit = comparison.scale, kpi.unit if kpi else None
    # Both have the unit, which is read once.
    before, after = format_pair(comparison.baseline_value, comparison.value, scale, None)
    change_unit = unit if scale is Scale.NUMBER else None

    def amount(value: float | None) -> str:
        return "" if value is None else format_amount(value, scale, has_sign=True)

    name = "adjusted 95 % CI" if comparison.is_adjusted else "95 % CI"
    has_interval = comparison.low is not None and comparison.high is not None
    ends = f"{name} {amount(comparison.low)} to {with_unit(amount(comparison.high), change_unit)}"
    day = f" of {format_day(comparison.baseline_at, zone)}" if comparison.baseline_at else ""
    is_one_run = comparison.against in ("the run before", "the pinned run")
    against = (
        comparison.against.replace(" before", "") if day and is_one_run else comparison.against
    )
    return ComparisonText(
        before=before,
        after=with_unit(after, unit),
        delta=with_unit(amount(comparison.effect), change_unit),
        interval=ends if has_interval else "",
        against=f"against {against}{day if is_one_run else ''}",
        items=f"{comparison.items:,} items" if comparison.items else "",
    )


def _value_text(kpi: ChangedKpi | None) -> str:
    if kpi is None or kpi.value is None:
        return ""
    scale = kpi.comparisons[0].scale if kpi.comparisons else None
    return FigureFormat.of([kpi.value], kpi.unit, scale).write(kpi.value)


def _other_text(kpi: ChangedKpi) -> OtherText:
    comparison = kpi.comparisons[0] if kpi.comparisons else None
    if comparison is None:
        return OtherText(kpi.name, _value_text(kpi), kpi.verdict)
    pair = format_pair(comparison.baseline_value, comparison.value, comparison.scale, None)
    return OtherText(kpi.name, with_unit(" → ".join(pair), kpi.unit), kpi.verdict)


def _ended_text(view: ChangeView) -> str:
    if view.ended_value is None or view.kpi is None:
        return ""
    scale = view.kpi.comparisons[0].scale if view.kpi.comparisons else None
    return format_value(view.ended_value, scale, view.kpi.unit)


def _line(view: ChangeView, main: ComparisonText | None) -> str:
    """What a folded card says: the number, or why there is none."""
    if view.kpi is None or main is None:
        return view.explanation
    return f"{view.kpi.name} {main.before} → {main.after}, {main.delta}"


def _spark(headline: HeadlineKpi, view: ChangeView) -> Markup:
    figures = FigureFormat.of(
        [headline.value, *headline.history], headline.unit, headline.verdict.scale if headline.verdict else None
    )  # fmt: skip
    is_bad = view.outcome == ChangeOutcome.REGRESSED and view.group is not ChangeGroup.RECOVERED
    chart = sparkline(
        headline.history, ChangeOutcome.REGRESSED if is_bad else headline.outcome, write=figures.write,
        size=(_CARD_WIDTH, _CARD_HEIGHT), usual=headline.usual,
    )  # fmt: skip
    return Markup(chart)  # noqa: S704 - our own SVG, which escapes its texts


def _run_again_form(view: ChangeView) -> RunAgainForm:
    """A failed run gets a new attempt; a run that may not be retried, or is invalid, a new run."""
    if view.can_retry:
        return RunAgainForm(f"{path_of('runs', view.run_id)}/retry", {})
    return RunAgainForm("/runs", {"benchmark": view.benchmark_id, "agent": view.agent_id})


def _list_told(session: Session, incident_ids: Collection[str]) -> dict[str, list[DeliveryRow]]:
    """Who was told of some incidents, by their IDs."""
    if not incident_ids:
        return {}
    events = select(AlertEvent).where(AlertEvent.id.in_(incident_ids))
    messages = {event.id: messages_of(event) for event in session.scalars(events)}
    statement = select(Delivery).where(
        Delivery.notification_id.in_(set(chain.from_iterable(messages.values())))
    )
    deliveries = list(session.scalars(statement.order_by(Delivery.id).limit(_MAX_DELIVERIES)))
    endpoints = endpoints_of(session, deliveries)
    rows_of: dict[str, list[DeliveryRow]] = defaultdict(list)
    for delivery in deliveries:
        rows_of[delivery.notification_id] += delivery_rows([delivery], endpoints)
    return {
        incident_id: [row for message in of_incident for row in rows_of[message]]
        for incident_id, of_incident in messages.items()
    }
