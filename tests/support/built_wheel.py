"""The wheel of this project, built and installed into a fresh environment."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.processes import LIVENESS_S, ROOT


def install_wheel(folder: Path) -> Path:
    """Build the wheel into a folder and install it there, without extras; the `bin` folder of its environment.

    The locked requirements come from the environment of the tests: a second installation would
    take a minute and test the package index, not the wheel.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-index", "--no-deps"]
    build: list[str | Path] = [
        *pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, ROOT,
    ]  # fmt: skip
    subprocess.run(build, check=True, timeout=LIVENESS_S)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    [wheel] = folder.glob("mosaico-*.whl")
    install: list[str | Path] = [*pip, "--python", python, "install", *offline, wheel]
    subprocess.run(install, check=True, timeout=LIVENESS_S)
    [site_packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site_packages / "locked_requirements.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent
