"""A check of a bash task: the whole output of all calls together is at most so many characters."""

from collections.abc import Callable, Iterator

from app.harness.bash.checking import Check, CheckEvidence, CheckResult, CheckWarning


def find(value: str, evidence: CheckEvidence) -> CheckResult:
    printed = sum(len(call.stdout) for call in evidence.calls)
    return CheckResult(printed <= int(value), f"expected <= {value}, got {printed}")


def complaints(value: str) -> Iterator[CheckWarning]:
    if not value.isdecimal():
        yield CheckWarning(f"{value!r} is no number of characters", fatal=True)


def register(add: Callable[..., object]) -> None:
    add("sample_quiet", Check(summary="little was printed", find=find, complaints=complaints))


def register_unfit(add: Callable[..., object]) -> None:
    add("sample_unfit", find)
