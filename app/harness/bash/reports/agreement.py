"""How far a run that was tried again is what was recorded, as plain lines."""

from collections.abc import Iterable

from app.core.console.terminal import escape_line
from app.harness.bash.replay import ChangedCheck, Replayed, Share
from app.harness.bash.reports.figures import amount, percent
from app.harness.bash.summary import summarize


def agreement_report(found: Replayed) -> str:
    """What the new run comes to, the shares that agree, and each check that changed."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Replayed) -> Iterable[str]:
    summary = summarize(found.report)
    yield (
        f"now {summary.total_passed}/{summary.total_tasks} tasks passed,"
        f" {amount(summary.total_score)}/{amount(summary.total_max_score)} points,"
        f" {summary.tool_calls_ok} calls ok, {summary.tool_calls_error} error"
    )
    shares = found.agreement
    yield f"tasks that agree       {_share(shares.tasks)}"
    yield f"checks that agree      {_share(shares.checks)}"
    yield f"exit codes that agree  {_share(shares.exit_codes)}"
    yield from map(_changed, shares.changed)


def _share(share: Share) -> str:
    return f"{share.same}/{share.all} ({percent(share.same / share.all if share.all else None)})"


def _changed(each: ChangedCheck) -> str:
    words = {True: "pass", False: "fail"}
    change = f"{words[each.recorded.passed]} -> {words[each.now.passed]}"
    note = " (unsteady, not counted)" if each.unsteady else ""
    return f"  {escape_line(each.task_id)} {escape_line(each.recorded.check)}: {change}{note}"
