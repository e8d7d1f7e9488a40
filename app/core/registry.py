"""Named things that are found by folder or by entry point, so that adding one touches one file."""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from app.core.errors import NotFound

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """Where a plugin came from; `error` tells why it could not be loaded."""

    kind: str
    name: str
    origin: str
    error: str | None = None


class DuplicateName(Exception):
    """Two plugins of one kind claim the same name; rename or remove one of them."""


class InvalidName(Exception):
    """A plugin has a name that users could not write; rename it."""


def suggest_names(name: str, names: Iterator[str] | list[str]) -> str:
    """Say ` Did you mean X?` for the known names closest to `name`; empty when none is close."""
    by_fold = {candidate.casefold(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.casefold(), list(by_fold), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(by_fold[match] for match in matches)}?" if matches else ""


class Registry(Generic[T]):
    """The plugins of one kind, by name.

    Built-ins are the modules of one package: each calls `register` when imported, and a failure
    stops the process. Third parties are entry points of one group: the loaded object is called
    with the registry's `register`, and a failure is recorded in `loaded` and nothing else. Two
    registries may share a group: an item whose `kind` is that of another is left to the other.
    `check` raises for an item that could not be used under its name.
    """

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        names: str = r"[a-z][a-z0-9_-]*",
        check: Callable[[str, T], None] | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self._name_pattern = names
        self._check = check
        self._items: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._loaded: list[LoadedPlugin] = []
        self._origin = "built-in"
        self._is_loaded = False

    def register(self, name: str, item: T, *, aliases: Sequence[str] = ()) -> T:
        """Add one item under its name. Under an alias it is found, too, and listed only once.

        Raises: `DuplicateName` when a name is taken, `UnfitName` when it is not of the form
                that this kind wants, and what the registry's `check` raises.
        """
        for new_name in (name, *aliases):
            self._require_free(new_name)
        if self._check is not None:
            self._check(name, item)
        self._items[name] = item
        self._aliases.update(dict.fromkeys(aliases, name))
        self._loaded.append(LoadedPlugin(kind=self.kind, name=name, origin=self._origin))
        return item

    def get(self, name: str) -> T:
        """The item of that name or alias; raises `NotFound` with the nearest names."""
        try:
            return self._items[self.canonical_name(name)]
        except KeyError:
            names = ", ".join(self._items) or "none is loaded"
            suggestion = suggest_names(name, [*self._items, *self._aliases])
            raise NotFound(
                f"no {self.kind} is named {name!r}.{suggestion} Known: {names}.",
                code=f"unknown-{self.kind.replace(' ', '-')}",
            ) from None

    def find(self, name: str) -> T | None:
        return self._items.get(self.canonical_name(name))

    def canonical_name(self, name: str) -> str:
        """The name behind an alias; any other name is its own."""
        return self._aliases.get(name, name)

    def names(self) -> list[str]:
        return list(self._items)

    @property
    def aliases(self) -> dict[str, str]:
        """The other names that are understood, each with the name that it stands for."""
        return dict(self._aliases)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    @property
    def loaded(self) -> list[LoadedPlugin]:
        """What was loaded, from where, and what could not be."""
        return list(self._loaded)

    def load(self, package_name: str, warn: Callable[[LoadedPlugin], None]) -> None:
        """Find the built-ins of a package and what other distributions offer, once in a process."""
        if not self._is_loaded:
            self._is_loaded = True
            self.load_folder(package_name)
            self.load_entry_points(warn)

    def load_folder(self, package_name: str) -> None:
        """Import every module of a package; importing one twice registers nothing twice."""
        package = importlib.import_module(package_name)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{package_name}."):
            importlib.import_module(module.name)

    def load_entry_points(self, warn: Callable[[LoadedPlugin], None]) -> None:
        """Load third-party plugins; each failure is recorded, told once to `warn`, and survived."""
        for entry_point in entry_points(group=self.group):
            try:
                self._load(entry_point)
            # A stranger's code must not stop the service, not even by asking to.
            except (Exception, SystemExit) as error:  # noqa: BLE001
                failure = LoadedPlugin(
                    kind=self.kind,
                    name=entry_point.name,
                    origin=_origin(entry_point),
                    error=f"{type(error).__name__}: {error}",
                )
                self._loaded.append(failure)
                warn(failure)

    def _load(self, entry_point: EntryPoint) -> None:
        before = dict(self._items), dict(self._aliases), list(self._loaded)
        self._origin = _origin(entry_point)
        try:
            entry_point.load()(self._register_own)
        except BaseException:
            self._items, self._aliases, self._loaded = before
            raise
        finally:
            self._origin = "built-in"

    def _register_own(self, name: str, item: T, *, aliases: Sequence[str] = ()) -> T:
        if getattr(item, "kind", self.kind) != self.kind:
            return item
        return self.register(name, item, aliases=aliases)

    def _require_free(self, name: str) -> None:
        if not re.fullmatch(self._name_pattern, name):
            raise InvalidName(f"a {self.kind} cannot be named {name!r}; use {self._name_pattern}")
        if name in self._items or name in self._aliases:
            raise DuplicateName(f"two {self.kind}s are named {name!r}; rename one of them")


def _origin(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    if distribution is None:
        return entry_point.value
    return f"{distribution.name} {distribution.version} ({entry_point.value})"
