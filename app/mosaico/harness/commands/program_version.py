"""`--version` of the programs `bashkit-eval` and `ot-bench`."""

from importlib.metadata import PackageNotFoundError, version

from mosaico.core.console.terminal import print_result, print_status
from mosaico.core.extras import describe_missing, has_extra


def print_version(program: str, sandbox: str | None = None) -> None:
    """Print the version of a program, which is that of the package, and of the `sandbox` that it runs; on standard
    error what its commands need and is not installed.
    """
    line = f"{program} of mosaico {version('mosaico')}"
    print_result(f"{line}, {sandbox} {_installed_version(sandbox)}" if sandbox else line)
    if not has_extra("harness"):
        print_status(f"hint: {describe_missing('harness', f'the commands of {program}')}")


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is not installed"
