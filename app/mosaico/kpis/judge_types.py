"""What a run stores of its judges and people: how far they agree, and the value of a KPI that annotations correct."""

from typing import Annotated

from pydantic import Field

from mosaico.core.schemas import StoredText, WireModel


class PeopleAgreement(WireModel):
    """How far the scores of a judge agreed with annotations when a run ended: the `share` of the annotated `answers` that
    both call right, or both wrong, with its 95 % interval.

    The answers are those that the same judge scored, of this run and of earlier ones. `share` is null for a `reason`.
    """

    metric: Annotated[str, Field(description="The metric that has the scores of the judge.")]
    # A stored document has no empty fields.
    share: Annotated[
        float | None, Field(description="Share of the answers on which both say the same.")
    ] = None
    low: Annotated[float | None, Field(description="Lower end of the interval.")] = None
    high: Annotated[float | None, Field(description="Upper end of the interval.")] = None
    answers: Annotated[int, Field(description="Annotated answers that this judge scored.")]
    items: Annotated[int, Field(description="Their items.")]
    reason: Annotated[
        StoredText | None,
        Field(description="Why the agreement is not known, and what to do; null where it is."),
    ] = None
    min_agreement: Annotated[
        float | None, Field(description="What the benchmark requires; null without a requirement.")
    ] = None

    @property
    def is_below(self) -> bool:
        """Whether the judge agrees less than required; what is not measured is not agreement."""
        if self.min_agreement is None:
            return False
        return self.share is None or self.share < self.min_agreement


class KpiCorrection(WireModel):
    """What annotations made of a KPI that is the mean of the scores of a judge.

    `rawValue` is the mean of the scores alone, with its 95 % interval. With a `reason` the value of the KPI is this mean,
    because it could not be corrected; `remedy` is what to do.
    """

    raw_value: Annotated[float, Field(description="Mean of the scores of the judge.")]
    raw_low: Annotated[float | None, Field(description="Lower end of its interval.")] = None
    raw_high: Annotated[float | None, Field(description="Upper end of its interval.")] = None
    answers: Annotated[int, Field(description="Annotated answers that this judge scored.")]
    items: Annotated[int, Field(description="Their items.")]
    reason: Annotated[
        StoredText | None,
        Field(description="Why the value is not corrected; null for one that is."),
    ] = None
    remedy: Annotated[StoredText | None, Field(description="What to do about it.")] = None
    explanation: Annotated[StoredText, Field(description="The same in one line.")]
