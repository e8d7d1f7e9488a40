"""The public package changes on purpose only: plugins and scripts of others rely on its names."""

import importlib
import pkgutil

import mosaico
from tests.support.public_package import SURFACE_FILE, surface


def test_public_package__names_and_parameters_are_the_recorded_ones() -> None:
    """An intended change: `python -m tests.support.public_package`, and a line in CHANGELOG.md."""
    assert surface() == SURFACE_FILE.read_text().splitlines()


def test_public_package__every_module_says_what_is_public() -> None:
    names = [module.name for module in pkgutil.iter_modules(mosaico.__path__)]
    silent = [
        name
        for name in names
        if not name.startswith("_") and not importlib.import_module(f"mosaico.{name}").__all__
    ]
    assert silent == []


def test_public_package__public_objects_are_documented() -> None:
    silent = []
    for line in SURFACE_FILE.read_text().splitlines():
        path = line.partition("(")[0]
        module_name, _, name = path.rpartition(".")
        if module_name == "mosaico" or module_name.count(".") == 1:
            public_object = getattr(importlib.import_module(module_name), name)
            if callable(public_object) and not public_object.__doc__:
                silent.append(path)
    assert silent == []
