"""Registry of metrics; turns a metric reference of a benchmark into a provider."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, Literal, get_args, get_origin

from mosaico.core.errors import Invalid
from mosaico.core.registry import LoadedPlugin, Registry, suggest_names
from mosaico.formula.ast import filtered_key, split_filter
from mosaico.metrics.filtered_metric import filter_metric, prepare_metric
from mosaico.metrics.types import (
    InvalidMetricReference,
    MetricFactory,
    MetricProvider,
    MetricRef,
    MetricSpec,
    Need,
    OptionValue,
    UnknownMetric,
)
from mosaico.traces.answer_markup import strip_fences, strip_thinking
from mosaico.traces.types import Trace

_LISTED_KEY: Final = re.compile(r"\[.*\]", re.DOTALL)  # SCORE["Clarity"] is listed as SCORE
_NAMED_COLUMN: Final = re.compile(r'([A-Z_]+)\[(".*")\]', re.DOTALL)


class InvalidMetric(Exception):
    """A registered object is not a valid `MetricFactory` of its name."""


def _check_factory(name: str, factory: MetricFactory) -> None:
    provider: object = factory()
    spec = getattr(provider, "spec", None)
    if not isinstance(spec, MetricSpec) or _LISTED_KEY.sub("", spec.key) != name:
        raise InvalidMetric(
            f"the metric {name} needs a MetricSpec with the key {name!r} as its spec"
        )
    for method in ("supports", "compute"):
        if not callable(getattr(provider, method, None)):
            raise InvalidMetric(f"the metric {name} has no method {method}(trace)")
    # The default defines the type of the option, so it must have one of JSON's scalar types.
    for option in options_of(factory):
        if not isinstance(option.default, bool | int | float | str):
            raise InvalidMetric(f"option {option.name} of {name} needs a boolean, number or text")


METRICS: Final[Registry[MetricFactory]] = Registry(
    "metric",
    group="mosaico.metrics",
    names=r"[A-Z_][A-Z0-9_]*",
    check=_check_factory,
    unknown=UnknownMetric,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOption:
    """An option of a metric: its wire name, and its default, which defines the type.

    `choices` are the allowed texts; empty when every value is allowed.
    """

    name: str
    default: OptionValue
    choices: tuple[str, ...] = ()


def _ignore_broken_plugin(_: LoadedPlugin) -> None:
    """Ignore a plugin that fails to load: the parent process has reported it."""


# Options of every metric that reads an output: what models add to their answers is left out first.
OUTPUT_OPTIONS: Final[Mapping[str, Callable[[str], str]]] = {
    "stripThinking": strip_thinking,
    "stripFences": strip_fences,
}


def load_metrics(warn: Callable[[LoadedPlugin], None] = _ignore_broken_plugin) -> None:
    """Load the built-in metrics and those of other distributions, once per process."""
    METRICS.load("mosaico.metrics.providers", warn)


def parse_ref(value: object) -> MetricRef:
    """Read `"ROUGE"` or `{"key": "ROUGE", "options": {"useStemmer": true}}`.

    Raises: Invalid for any other form. `provider_for` checks whether the metric exists.
    """
    match value:
        case str():
            return MetricRef.of(value)
        case {"key": str(key), **rest} if rest.keys() <= {"options"}:
            return MetricRef.of(key, _scalars(key, rest.get("options")))
        case _:
            raise InvalidMetricReference(
                f'a metric is a name or {{"key": …, "options": {{…}}}}, not {value!r:.80}.'
            )


def provider_for(ref: MetricRef) -> MetricProvider:
    """The provider behind a name and its options.

    Raises: NotFound for an unknown name, Invalid for an unknown option or a value of another type.
    """
    key, tags = split_filter(ref.key)
    factory: Callable[..., MetricProvider] = METRICS.get(key)
    for error in option_errors(ref).values():
        raise error
    # Wire names are camel case, like all of the API.
    own = {_snake(name): value for name, value in ref.options if name not in OUTPUT_OPTIONS}
    strips = [name for name, value in ref.options if name in OUTPUT_OPTIONS and value]
    provider = factory(**own)
    if strips:
        version = version_with(provider.spec.version, **dict.fromkeys(strips, True))
        provider = prepare_metric(provider, version, partial(_strip_output, strips))
    return filter_metric(provider, tags) if tags else provider


def all_options_of(factory: Callable[..., MetricProvider]) -> list[MetricOption]:
    """The options of a metric, with those that every metric has that reads an output."""
    options = [*options_of(factory)]
    if Need.OUTPUT in factory().spec.needs:
        options += [MetricOption(name=name, default=False) for name in OUTPUT_OPTIONS]
    return options


def option_errors(ref: MetricRef) -> dict[str, Invalid]:
    """The error of each invalid option by name. Raises NotFound for an unknown metric."""
    factory = METRICS.get(split_filter(ref.key).key)
    # Most metrics have none, and are looked up a hundred times in a run.
    if not ref.options:
        return {}
    options = {option.name: option for option in all_options_of(factory)}
    errors = {}
    for name, value in ref.options:
        try:
            _check_option(ref.key, name, value, options)
        except Invalid as error:
            errors[name] = error
    return errors


def ref_of_column(column: str) -> MetricRef:
    """The metric of a name in a formula: `ROUGE`, an alias, or `SCORE["Answer Relevance"]`.

    Each of them may have a filter: `ROUGE{lang="de"}`.
    """
    key, tags = split_filter(column)
    named = _NAMED_COLUMN.fullmatch(key)
    if named:
        return MetricRef.of(filtered_key(named[1], tags), {"name": json.loads(named[2])})
    return MetricRef.of(filtered_key(METRICS.canonical_name(key), tags))


def column_of(name: str) -> str:
    """The column of a name in a formula: the name itself, unless it is an alias."""
    key, tags = split_filter(name)
    return filtered_key(METRICS.canonical_name(key), tags)


def names_of(refs: Iterable[MetricRef]) -> frozenset[str]:
    """The names of these metrics in formulas, including aliases, without filters."""
    keys = {METRICS.canonical_name(split_filter(ref.key).key) for ref in refs}
    return frozenset({*keys, *(alias for alias, name in METRICS.aliases.items() if name in keys)})


@lru_cache(maxsize=256)
def providers_for(refs: tuple[MetricRef, ...]) -> tuple[MetricProvider, ...]:
    """The providers of a run in its metric order. Raises as `provider_for`."""
    return tuple(map(provider_for, refs))


def options_of(factory: Callable[..., MetricProvider]) -> tuple[MetricOption, ...]:
    """The options of a metric, read from the signature of its factory."""
    return tuple(
        MetricOption(
            name=_camel(name), default=parameter.default, choices=_choices(parameter.annotation)
        )
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    )


def version_with(version: str, **options: OptionValue) -> str:
    """The version of a built-in metric: a number, then each option that is in use.

    `1`, `1+useStemmer`, `1+beta=2`. An option that is False, empty or zero is omitted, so that must be
    its default.
    """
    marks = (
        f"+{_camel(name)}" if value is True else f"+{_camel(name)}={value}"
        for name, value in sorted(options.items())
        if value
    )
    return version + "".join(marks)


def plain_keys() -> list[str]:
    """The metrics that work without options: all but SCORE, which needs a name."""
    return [name for name in METRICS.names() if name != "SCORE"]


def default_keys() -> list[str]:
    """The metrics that are computed without being named: not JSON_EQUAL, which is one of JSON answers only, nor those
    whose values a file has or has not.
    """
    return [name for name in plain_keys() if name != "JSON_EQUAL" and not _is_delivered(name)]


def score_ref(name: str) -> MetricRef:
    """The metric of a score that traces have under this name; some have metrics of their own."""
    is_own = name in METRICS.names() and _is_delivered(name)
    return MetricRef.of(name) if is_own else MetricRef.of("SCORE", {"name": name})


def _is_delivered(key: str) -> bool:
    return provider_for(MetricRef.of(key)).spec.is_delivered


def default_refs(keys: Iterable[str]) -> tuple[MetricRef, ...]:
    """References without options, each name checked. Raises NotFound with the nearest names."""
    refs = tuple(dict.fromkeys(map(ref_of_column, keys)))
    providers_for(refs)
    return refs


def _strip_output(options: Sequence[str], trace: Trace) -> Trace:
    """The trace with an output that is changed by these options, in the order of `OUTPUT_OPTIONS`."""
    if not trace.output:
        return trace
    text = trace.output
    for name, strip in OUTPUT_OPTIONS.items():
        if name in options:
            text = strip(text)
    return replace(trace, output=text)


def _scalars(key: str, options: Any) -> Mapping[str, OptionValue]:
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(
        isinstance(value, bool | int | float | str) for value in options.values()
    ):
        raise InvalidMetricReference(
            f"the options of {key} are an object of booleans, numbers and texts,"
            f" not {options!r:.80}."
        )
    return options


def _check_option(
    key: str, name: str, value: OptionValue, options: Mapping[str, MetricOption]
) -> None:
    if name not in options:
        listing = f"Known: {', '.join(options)}." if options else "It has no options."
        raise InvalidMetricReference(
            f"{key} has no option {name!r}.{suggest_names(name, list(options))} {listing}"
        )
    option_type = type(options[name].default)
    # Exact types, because True would pass as a number. A whole number may be written without a
    # point.
    if type(value) is not option_type and not (option_type is float and type(value) is int):
        raise InvalidMetricReference(
            f"option {name} of {key} takes a {option_type.__name__} such as {options[name].default!r},"
            f" not {value!r:.80}."
        )
    choices = options[name].choices
    if choices and value not in choices:
        listing = ", ".join(repr(choice) for choice in choices)
        raise InvalidMetricReference(
            f"option {name} of {key} is one of {listing},"
            f" not {value!r:.80}.{suggest_names(str(value), list(filter(None, choices)))}"
        )


def _choices(annotation: object) -> tuple[str, ...]:
    """The values of a `Literal`, with which a factory restricts an option."""
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)
