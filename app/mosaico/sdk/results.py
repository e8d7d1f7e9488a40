"""What `compare` and `gate` return; each shows itself in a notebook."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaico.comparison.schemas import Comparison, FlippedItem
from mosaico.gating import reports
from mosaico.gating.rules import GateCheck, GateOutcome, GateResult
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.offline_models import LlmUsage
from mosaico.reporting import comparison_page as page
from mosaico.sdk.tables import frame_of, html_of, text_of
from mosaico.statistics.verdict_rules import Verdict

if TYPE_CHECKING:
    import pandas as pd

_CHANGE_COLUMNS = ("verdict", "baseline", "candidate", "change", "low", "high", "p")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResultComparison:
    """The comparison of a candidate with a base.

    `comparison` is the whole comparison as the API returns it. `remarks` say how the results were
    read. `llm_usage` is what metrics that call a model took.
    """

    files: page.ComparedFiles
    llm_usage: LlmUsage = field(default_factory=LlmUsage)

    @property
    def comparison(self) -> Comparison:
        return self.files.comparison

    @property
    def remarks(self) -> Sequence[str]:
        return self.files.remarks

    @property
    def verdict(self) -> Verdict:
        """The verdict of `metric`; INVALID when the results cannot be compared."""
        return Verdict(page.verdict_of(self.comparison))

    @property
    def headline(self) -> str:
        """The verdict with its numbers: `REGRESSED: ACCURACY 0.95 → 0.65 (-0.30, 95 % CI …)`."""
        return page.headline(self.comparison)

    @property
    def metric(self) -> str | None:
        """The deciding metric or KPI: of the judged ones the first that regressed, otherwise the first.

        None when no metric has a better side.
        """
        deciding = page.deciding_metric(self.comparison)
        return deciding.metric if deciding else None

    @property
    def flipped_items(self) -> Sequence[FlippedItem]:
        """The items that changed by half or more, worst first."""
        flips = self.comparison.flipped_items
        return flips.items if flips else ()

    def write_html(self, path: str | Path) -> Path:
        """Write the page of `mosaico compare` and return its path."""
        target = Path(path)
        target.write_text(page.html_comparison(self.files), encoding="utf-8")
        return target

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each KPI, metric and usage figure. Raises: `MissingPackages`."""
        compared = page.compared_rows(self.comparison)
        rows = [{"metric": row.metric, **_numbers(row.verdict)} for row in compared]
        return frame_of(rows, ("metric", *_CHANGE_COLUMNS))

    def __repr__(self) -> str:
        return text_of(self.headline, page.METRIC_TITLES, page.metric_rows(self.comparison))

    def _repr_html_(self) -> str:
        flips = [[item.item_id, *page.flip_values(item)] for item in self.flipped_items]
        return html_of(self.headline, page.METRIC_TITLES, page.metric_rows(self.comparison)) + (
            html_of("Items that changed by half or more", ("item", "before", "after"), flips)
            if flips
            else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GateReport:
    """The outcome of a gate: whether a candidate passes, and why.

    `remarks` say how the results were read. `llm_usage` is what metrics that call a model took.
    """

    result: GateResult
    remarks: Sequence[str] = ()
    llm_usage: LlmUsage = field(default_factory=LlmUsage)

    @property
    def outcome(self) -> GateOutcome:
        return self.result.outcome

    @property
    def passed(self) -> bool:
        """Return whether `mosaico gate` would exit with 0: also for an inconclusive outcome that
        passes.
        """
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of `mosaico gate`: 0 pass, 1 regression, 3 invalid, 4 inconclusive."""
        return self.result.exit_code

    @property
    def checks(self) -> Sequence[GateCheck]:
        return self.result.checks

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        return reports.headline(self.result)

    @property
    def sentences(self) -> Sequence[str]:
        """What the outcome means, one line for each check."""
        return list(reports.sentences(self.result))

    def to_markdown(self) -> str:
        """The summary for a pull request."""
        return reports.gate_markdown(self.result)

    def to_junit(self) -> str:
        """A JUnit XML document with one test case for each check."""
        return reports.gate_junit(self.result)

    def to_json(self) -> dict[str, Any]:
        """The document that `mosaico gate --json` prints."""
        return reports.gate_json(self.result)

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each check. Raises: `MissingPackages`."""
        rows = [
            {
                "check": check.name,
                "outcome": str(check.outcome),
                "requirement": check.requirement,
                **_numbers(check.verdict),
            }
            for check in self.checks
        ]
        return frame_of(rows, ("check", "outcome", "requirement", *_CHANGE_COLUMNS))

    def __repr__(self) -> str:
        return text_of(self.headline, reports.CHECK_TITLES, reports.check_rows(self.result))

    def _repr_html_(self) -> str:
        rows: Iterable[Sequence[str]] = reports.check_rows(self.result)
        return html_of(self.headline, reports.CHECK_TITLES, rows)


def _numbers(verdict: ValueVerdict | None) -> dict[str, Any]:
    """The columns of a verdict; None for a number that it does not have."""
    if verdict is None:
        return dict.fromkeys(_CHANGE_COLUMNS)
    numbers = (
        verdict.baseline_value, verdict.value, verdict.effect, verdict.low, verdict.high, verdict.p,
    )  # fmt: skip
    name = None if verdict.verdict is None else str(verdict.verdict)
    return dict(zip(_CHANGE_COLUMNS, (name, *numbers), strict=True))
