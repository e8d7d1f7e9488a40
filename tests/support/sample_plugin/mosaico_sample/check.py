"""A check of a bash task: limits the total output of all calls."""

from collections.abc import Callable, Iterator

from mosaico.plugins import AddPlugin, Check, CheckEvidence, CheckResult, CheckWarning


def evaluate(value: str, evidence: CheckEvidence) -> CheckResult:
    length = sum(len(call.stdout) for call in evidence.calls)
    return CheckResult(length <= int(value), f"expected <= {value}, got {length}")


def warnings(value: str) -> Iterator[CheckWarning]:
    if not value.isdecimal():
        yield CheckWarning(f"{value!r} is not a number of characters", is_fatal=True)


def register(add: AddPlugin[Check]) -> None:
    add("sample_quiet", Check(summary="little output", evaluate=evaluate, warnings=warnings))


def register_unfit(add: Callable[..., object]) -> None:
    add("sample_unfit", evaluate)
