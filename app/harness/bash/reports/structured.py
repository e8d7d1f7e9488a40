"""A run as JSON: everything recorded, its figures and its profile."""

import json
from dataclasses import asdict
from typing import Any

from app.harness.bash.profile import profile
from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport


def json_report(report: EvalReport) -> str:
    return json.dumps(report_document(report), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def report_document(report: EvalReport) -> dict[str, Any]:
    """The report as parsed JSON; reading it again gives the same report."""
    summary = summarize(report)
    found = profile(report, summary)
    return asdict(report) | {
        "summary": asdict(summary),
        "profile": {
            "healthy": found.is_healthy,
            "traits": [asdict(trait) for trait in found.traits],
            "signals": [asdict(signal) for signal in found.signals],
        },
    }
