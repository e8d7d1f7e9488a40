"""Names the judges that agree with people less than required wherever their scores decide; pure.

It is a remark like those about equal answers that are scored otherwise: the verdict stays what the scores say.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from mosaico.comparison.comparison_rules import RunComparison, columns_of
from mosaico.comparison.deciders import Deciders
from mosaico.comparison.judge_text import describe_weak_judges
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.verdict_types import RunVerdict, RunVerdicts, ValueVerdict

VerdictT = TypeVar("VerdictT", RunVerdict, ValueVerdict)


def with_weak_judges(
    verdicts: RunVerdicts, comparison: RunComparison, deciders: Deciders
) -> RunVerdicts:
    """The verdicts of a run, of which those that rest on a weak judge name it: of metrics, KPIs, and of the run if one of
    them decides.
    """
    if not comparison.weak_judges(comparison.agreements):
        return verdicts
    columns = {value.kpi.id: columns_of(value) for value in comparison.kpis}
    # As the verdict of the run: by all its KPIs, otherwise by the metrics that decide.
    deciding = set().union(*columns.values()) if columns else {*deciders.checked}
    return replace(
        verdicts,
        run=_with(verdicts.run, comparison.weak_judges(deciding)),
        metrics=_with_each(verdicts.metrics, comparison, {name: {name} for name in verdicts.metrics}),
        kpis=_with_each(verdicts.kpis, comparison, columns),
    )  # fmt: skip


def _with_each(
    verdicts: Mapping[str, ValueVerdict],
    comparison: RunComparison,
    columns: Mapping[str, Collection[str]],
) -> dict[str, ValueVerdict]:
    return {
        name: _with(verdict, comparison.weak_judges(columns.get(name, ())))
        for name, verdict in verdicts.items()
    }


def _with(verdict: VerdictT, weak: tuple[PeopleAgreement, ...]) -> VerdictT:
    if not weak:
        return verdict
    explanation = " ".join([verdict.explanation, *describe_weak_judges(weak)])
    return verdict.model_copy(update={"weak_judges": weak, "explanation": explanation})
