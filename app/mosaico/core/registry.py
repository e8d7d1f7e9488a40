"""Plugin registry: plugins are found by folder or entry point, so that adding one touches one file."""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Generic, Protocol, TypeVar, cast

from mosaico.core.errors import NotFound

T = TypeVar("T")
P_contra = TypeVar("P_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """Origin of a plugin; `error` is the reason why it could not be loaded."""

    kind: str
    name: str
    origin: str
    error: str | None = None


class UnknownPlugin(NotFound):
    """No plugin of this kind has this name; `mosaico plugins` lists all plugins."""


class AddPlugin(Protocol[P_contra]):
    """The argument of an entry point function: adds one plugin under its name.

    Raises as `Registry.register`.
    """

    def __call__(self, name: str, item: P_contra, /, *, aliases: Sequence[str] = ()) -> object: ...


def suggest_names(name: str, names: Iterator[str] | list[str]) -> str:
    """` Did you mean X?` with the names closest to `name`; empty when none is close."""
    by_fold = {candidate.casefold(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.casefold(), list(by_fold), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(by_fold[match] for match in matches)}?" if matches else ""


class Registry(Generic[T]):
    """The plugins of one kind, by name.

    Built-ins are the modules of one package: each calls `register` when imported, and a failure
    stops the process. Third parties are entry points of one group: the loaded object is called
    with the registry's `register`, and a failure is only recorded in `loaded`. Two registries may
    share a group: an item with another `kind` is ignored. Items are of the type `item_type`, and
    `check` raises for one that cannot be used under its name.
    """

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        names: str = r"[a-z][a-z0-9_-]*",
        item_type: type[T] | None = None,
        check: Callable[[str, T], None] | None = None,
        unknown: type[NotFound] = UnknownPlugin,
    ) -> None:
        self.kind = kind
        self.group = group
        self._name_pattern = names
        self._item_type = item_type
        self._check = check
        self._unknown = unknown
        self._items: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._loaded: list[LoadedPlugin] = []
        self._packages: dict[str, str] = {}
        self._origin = "built-in"
        self._package: str | None = None
        self._is_loaded = False

    def register(self, name: str, item: T, *, aliases: Sequence[str] = ()) -> T:
        """Add one item under its name. It is also found by its aliases, and listed once.

        Raises: `ValueError` when a name is taken or does not have the required form, `TypeError` for an
                item of another type, and what `check` raises.
        """
        for new_name in (name, *aliases):
            self._require_free(new_name)
        self._require_type(name, item)
        if self._check is not None:
            self._check(name, item)
        self._items[name] = item
        self._aliases.update(dict.fromkeys(aliases, name))
        self._loaded.append(LoadedPlugin(kind=self.kind, name=name, origin=self._origin))
        if self._package is not None:
            self._packages[name] = self._package
        return item

    def get(self, name: str) -> T:
        """The item with that name or alias; raises `unknown` with the closest names."""
        try:
            return self._items[self.canonical_name(name)]
        except KeyError:
            names = ", ".join(self._items) or "none is loaded"
            suggestion = suggest_names(name, [*self._items, *self._aliases])
            raise self._unknown(
                f"no {self.kind} is named {name!r}.{suggestion} Known: {names}."
            ) from None

    def find(self, name: str) -> T | None:
        """The item with that name or alias; None when there is none."""
        return self._items.get(self.canonical_name(name))

    def canonical_name(self, name: str) -> str:
        """The name of an alias; any other name unchanged."""
        return self._aliases.get(name, name)

    def package_of(self, name: str) -> str | None:
        """The distribution of a plugin with its version; None for a built-in."""
        return self._packages.get(self.canonical_name(name))

    def names(self) -> list[str]:
        """The names of all items, without aliases."""
        return list(self._items)

    @property
    def aliases(self) -> dict[str, str]:
        """The names by alias."""
        return dict(self._aliases)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    @property
    def loaded(self) -> list[LoadedPlugin]:
        """All loaded plugins and all failures."""
        return list(self._loaded)

    def load(self, package_name: str, warn: Callable[[LoadedPlugin], None]) -> None:
        """Load the built-ins of a package and the plugins of other distributions, once per process."""
        if not self._is_loaded:
            self._is_loaded = True
            self.load_folder(package_name)
            self.load_entry_points(warn)

    def load_folder(self, package_name: str) -> None:
        """Import every module of a package; a second import has no effect."""
        package = importlib.import_module(package_name)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{package_name}."):
            importlib.import_module(module.name)

    def load_entry_points(self, warn: Callable[[LoadedPlugin], None]) -> None:
        """Load third-party plugins; each failure is recorded and passed to `warn`."""
        for entry_point in installed_entry_points(self.group):
            try:
                self._load(entry_point)
            # Third-party code must not stop the service, not even with `sys.exit`.
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
        self._origin, self._package = _origin(entry_point), _package(entry_point)
        try:
            entry_point.load()(self._register_own)
        except BaseException:
            self._items, self._aliases, self._loaded = before
            raise
        finally:
            self._origin, self._package = "built-in", None

    def _register_own(self, name: str, item: T, *, aliases: Sequence[str] = ()) -> T:
        if getattr(item, "kind", self.kind) != self.kind:
            return item
        return self.register(name, item, aliases=aliases)

    def _require_type(self, name: str, item: object) -> None:
        if self._item_type is not None and not isinstance(item, self._item_type):
            type_name = self._item_type.__name__
            article = "an" if type_name[0] in "AEIO" else "a"
            raise TypeError(
                f"the {self.kind} {name} must be {article} {type_name}, not {item!r:.80}"
            )

    def _require_free(self, name: str) -> None:
        if not re.fullmatch(self._name_pattern, name):
            raise ValueError(f"a {self.kind} cannot be named {name!r}; use {self._name_pattern}")
        if name in self._items or name in self._aliases:
            raise ValueError(f"two {self.kind}s are named {name!r}; rename one of them")


def installed_entry_points(group: str) -> EntryPoints:
    """The plugins of a group that the installed distributions offer."""
    return _every_entry_point().select(group=group)


@cache
def _every_entry_point() -> EntryPoints:
    # Reads a file of each distribution: once for all registries. Python 3.11 has another class with the same method.
    return cast("EntryPoints", entry_points())


def _origin(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    if distribution is None:
        return entry_point.value
    return f"{distribution.name} {distribution.version} ({entry_point.value})"


def _package(entry_point: EntryPoint) -> str | None:
    distribution = entry_point.dist
    return None if distribution is None else f"{distribution.name} {distribution.version}"
