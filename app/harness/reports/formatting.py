"""Numbers as texts, the same in every report."""

from app.harness.results import ProviderRetries

UNKNOWN = "–"


def format_percent(rate: float | None, decimals: int = 1) -> str:
    """`86.5 %`; a rate below 1 is never rounded up to 100 %."""
    if rate is None:
        return UNKNOWN
    highest = 100 - 10**-decimals if rate < 1 else 100.0
    return f"{min(100 * rate, highest):.{decimals}f} %"


def format_seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


def format_waiting(retries: ProviderRetries) -> str:
    """The part of a duration that waited for the provider: ` (12.0 s of it waiting after 2 × 429)`."""
    if not retries.waited_ms:
        return ""
    causes = ", ".join(f"{count} × {status}" for status, count in retries.failures.items())
    return f" ({format_seconds(retries.waited_ms)} of it waiting after {causes})"


def format_points(points: float) -> str:
    """Points without needless decimals: `7`, `2.5`."""
    return f"{points + 0.0:g}"  # + 0.0: the original evaluation recorded an empty sum as -0.0


def format_dollars(amount: float | None) -> str:
    return "unknown" if amount is None else f"${amount:.4f}"


def format_count(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:.0f}"


def format_tokens(count: int | None) -> str:
    return "unknown" if count is None else str(count)
