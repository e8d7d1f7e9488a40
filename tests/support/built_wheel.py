"""The wheel of this project, built and installed into a fresh environment."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.distributions import build_wheel
from tests.support.processes import LIVENESS_S


def install_wheel(folder: Path) -> Path:
    """Build the wheel into a folder and install it there, without extras; the `bin` folder of its environment.

    The locked requirements come from the environment of the tests: a second installation would
    take a minute and test the package index, not the wheel.
    """
    wheel = build_wheel(folder)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python,
            "install", "--no-index", "--no-deps", wheel,
        ],
        check=True, timeout=LIVENESS_S,
    )  # fmt: skip
    [site_packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site_packages / "locked_requirements.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent
