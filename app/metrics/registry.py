"""Which metrics exist, and how the name in a benchmark becomes a provider."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from app.core.errors import Invalid
from app.core.registry import Loaded, Registry, near_matches
from app.metrics.types import MetricFactory, MetricProvider, MetricRef, OptionValue

_SCORE_COLUMN: Final = re.compile(r'SCORE\[(".*")\]', re.DOTALL)

METRICS: Final[Registry[MetricFactory]] = Registry(
    "metric", group="mosaico.metrics", names=r"[A-Z_][A-Z0-9_]*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOption:
    """A setting of a metric: its wire name, and the default that also fixes its type."""

    name: str
    default: OptionValue


def _say_nothing(_: Loaded) -> None:
    """Ignore a plugin that cannot be loaded; the process that started this one has told of it."""


def load_metrics(warn: Callable[[Loaded], None] = _say_nothing) -> None:
    """Find the built-in metrics and those of other distributions, once in a process."""
    if not METRICS:
        METRICS.load_folder("app.metrics.providers")
        METRICS.load_entry_points(warn)


def parse_ref(value: object) -> MetricRef:
    """Read `"ROUGE"` or `{"key": "ROUGE", "options": {"useStemmer": true}}`.

    Raises: Invalid for any other form; the metric itself is looked up by `provider_for`.
    """
    match value:
        case str():
            return MetricRef.of(value)
        case {"key": str(key), **rest} if rest.keys() <= {"options"}:
            return MetricRef.of(key, _scalars(key, rest.get("options")))
        case _:
            raise Invalid(
                f'a metric is a name or {{"key": …, "options": {{…}}}}, not {value!r:.80}.',
                code="invalid-metric",
            )


def provider_for(ref: MetricRef) -> MetricProvider:
    """The provider behind a name and its options.

    Raises: NotFound for an unknown name, Invalid for an unknown option or a value of another type.
    """
    factory: Callable[..., MetricProvider] = METRICS.get(ref.key)
    known = {option.name: option for option in options_of(factory)}
    for name, value in ref.options:
        _check_option(ref.key, name, value, known)
    return factory(**{_snake(name): value for name, value in ref.options})


def ref_of_column(column: str) -> MetricRef:
    """The metric behind a column that a formula names: `ROUGE`, or `SCORE["Answer Relevance"]`."""
    name = _SCORE_COLUMN.fullmatch(column)
    return MetricRef.of("SCORE", {"name": json.loads(name[1])}) if name else MetricRef.of(column)


@lru_cache(maxsize=256)
def providers_for(refs: tuple[MetricRef, ...]) -> tuple[MetricProvider, ...]:
    """The providers of a run in its metric order. Raises as `provider_for`."""
    return tuple(map(provider_for, refs))


def options_of(factory: Callable[..., MetricProvider]) -> tuple[MetricOption, ...]:
    """The options that a metric takes, read from the signature of its factory."""
    return tuple(
        MetricOption(name=_camel(name), default=parameter.default)
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    )


def version_with(version: str, **options: OptionValue) -> str:
    """A version that tells every option in use: `1`, `1+useStemmer`, `1+beta=2`.

    Options that are False, empty or zero are left out, so those must be the defaults.
    """
    marks = (
        f"+{_camel(name)}" if value is True else f"+{_camel(name)}={value}"
        for name, value in sorted(options.items())
        if value
    )
    return version + "".join(marks)


def plain_keys() -> list[str]:
    """The metrics that say something without options: all but SCORE, which needs a name."""
    return [name for name in METRICS.names() if name != "SCORE"]


def default_refs(keys: Iterable[str]) -> tuple[MetricRef, ...]:
    """References without options, each name checked. Raises NotFound with the nearest names."""
    refs = tuple(map(MetricRef.of, keys))
    providers_for(refs)
    return refs


def _scalars(key: str, options: Any) -> Mapping[str, OptionValue]:
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(
        isinstance(value, bool | int | float | str) for value in options.values()
    ):
        raise Invalid(
            f"the options of {key} are an object of booleans, numbers and texts,"
            f" not {options!r:.80}.",
            code="invalid-metric-option",
        )
    return options


def _check_option(
    key: str, name: str, value: OptionValue, known: Mapping[str, MetricOption]
) -> None:
    if name not in known:
        listing = f"Known: {', '.join(known)}." if known else "It has none."
        raise Invalid(
            f"{key} has no option {name!r}.{near_matches(name, list(known))} {listing}",
            code="unknown-metric-option",
        )
    wanted = type(known[name].default)
    if type(value) is not wanted and not (wanted is float and type(value) is int):
        raise Invalid(
            f"option {name} of {key} takes a {wanted.__name__} such as {known[name].default!r},"
            f" not {value!r:.80}.",
            code="invalid-metric-option",
        )


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)
