"""Properties of an apply, over random files and a service in memory."""

import contextlib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mosaico.core.errors import Unavailable
from mosaico.project_file.apply import Applier, read_service
from mosaico.project_file.export import export_text
from mosaico.project_file.kinds import FileObject, ObjectKey, ObjectKind, ProjectFile
from mosaico.project_file.plan import build_plan
from mosaico.project_file.reading import parse_project_file
from mosaico.project_file.steps import Plan, PlanOptions
from tests.unit.project_file.service_model import ServiceModel

pytestmark = pytest.mark.usefixtures("cheap_digests")
# A benchmark and a part of another one could look the same.
NAMES = st.sampled_from(["a", "b", "a/kpis/b", "a/rules/a%2F"])
TEXTS = st.sampled_from(["", "x", "y"])
AGENTS = st.fixed_dictionaries(
    {}, optional={"description": TEXTS, "langfuseSecretKey": st.sampled_from(["k1", "k2"])}
)
KPIS = st.fixed_dictionaries(
    {"formula": st.sampled_from(["ROUGE", "BLEU"])}, optional={"gate": st.booleans()}
)
RULES = st.fixed_dictionaries(
    {"condition": st.just("REGRESSED")},
    optional={"cooldownMinutes": st.integers(0, 2), "enabled": st.booleans()},
)
ENDPOINTS = st.fixed_dictionaries(
    {"channel": st.just("EMAIL"), "recipient": st.sampled_from(["a@x.org", "b@x.org"])},
    optional={"dailySummary": st.booleans()},
)
PLAIN = PlanOptions()
PRUNE = PlanOptions(prune=True)


@st.composite
def files(draw: st.DrawFn, name: str = "f") -> ProjectFile:
    def some(kind: ObjectKind, fields: Any, benchmark: str | None = None) -> list[FileObject]:
        objects = draw(st.dictionaries(NAMES, fields, max_size=2))
        return [FileObject(key=ObjectKey(kind, n, benchmark), fields=f) for n, f in objects.items()]

    objects = some(ObjectKind.AGENT, AGENTS)
    agents = [item.key.name for item in objects]
    recipients = some(ObjectKind.ENDPOINT, ENDPOINTS)
    objects += {item.fields["recipient"]: item for item in recipients}.values()
    chosen = st.lists(st.sampled_from(agents), unique=True) if agents else st.just([])
    benchmarks = some(
        ObjectKind.BENCHMARK,
        st.fixed_dictionaries({}, optional={"taskDef": TEXTS, "agents": chosen}),
    )
    for benchmark in benchmarks:
        kpis = some(ObjectKind.KPI, KPIS, benchmark.key.name)
        watched = st.sampled_from([kpi.key.name for kpi in kpis]) if kpis else st.none()
        rules = st.builds(
            lambda rule, kpi: {**rule, **({"kpi": kpi} if kpi else {})}, RULES, watched
        )
        objects += [benchmark, *kpis, *some(ObjectKind.RULE, rules, benchmark.key.name)]
    return ProjectFile(name=name, objects=tuple(objects))


def plan_of(service: Any, content: ProjectFile, options: PlanOptions = PLAIN) -> Plan:
    return build_plan(content, read_service(service), options)


def apply(service: Any, content: ProjectFile, options: PlanOptions = PLAIN) -> Plan:
    plan = plan_of(service, content, options)
    applier = Applier(api=service, content=content, names=plan.names)
    for step in () if plan.conflicts else plan.steps:
        applier.perform(step)
    return plan


def content_of(service: Any) -> str:
    """What a service has, without IDs."""
    return export_text(read_service(service), "f", (), "")


@given(files())
def test_apply__of_what_was_applied_has_nothing_to_do(content: ProjectFile) -> None:
    service = ServiceModel()
    assert not apply(service, content).conflicts
    writes = service.writes
    again = apply(service, content)
    assert (again.steps, again.conflicts, again.leftovers) == ((), (), ())
    assert service.writes == writes


@given(files(), st.randoms(use_true_random=False))
def test_plan__is_the_same_for_every_order_of_objects(content: ProjectFile, random: Any) -> None:
    service = ServiceModel()
    objects = list(content.objects)
    random.shuffle(objects)
    shuffled = ProjectFile(name=content.name, objects=tuple(objects))
    assert plan_of(service, shuffled).steps == plan_of(service, content).steps
    apply(service, content)
    assert plan_of(service, shuffled).steps == ()


@pytest.mark.parametrize("benchmark", ["h", "h/kpis/x", "h/rules/%2F", "h%2Fkpis%2Fx"])
@pytest.mark.parametrize("name", ["k", "x/kpis/k", "k/rules/z"])
def test_export__slashes_in_names_stay_in_their_names(benchmark: str, name: str) -> None:
    service = ServiceModel()
    keys = [ObjectKey(ObjectKind.BENCHMARK, benchmark), ObjectKey(ObjectKind.KPI, name, benchmark)]
    objects = [
        FileObject(key=keys[0], fields={}),
        FileObject(key=keys[1], fields={"formula": "ROUGE"}),
    ]
    apply(service, ProjectFile(name="f", objects=tuple(objects)))
    exported = parse_project_file(content_of(service).encode(), {}, "f")
    assert [item.key for item in exported.objects] == keys


def endpoints(**recipients: str) -> ProjectFile:
    """A file of mail endpoints, by name."""
    objects = (
        FileObject(
            key=ObjectKey(ObjectKind.ENDPOINT, name),
            fields={"channel": "EMAIL", "recipient": recipient},
        )
        for name, recipient in recipients.items()
    )
    return ProjectFile(name="f", objects=tuple(objects))


@given(files(), files())
# The name of an endpoint that stays is given to another one.
@example(endpoints(b="a@x.org", a="b@x.org"), endpoints(b="b@x.org"))
def test_apply__of_another_content_leads_to_it_whatever_was_before(
    first: ProjectFile, second: ProjectFile
) -> None:
    """Endpoints stay, because messages were sent to them; a KPI that an archived benchmark has stays, too."""
    changed, fresh = ServiceModel(), ServiceModel()
    apply(changed, first)
    assert not apply(changed, second, PRUNE).conflicts
    apply(fresh, second)
    last = plan_of(changed, second, PRUNE)
    assert last.visible_steps == ()
    assert used_objects(changed, second) == used_objects(fresh, second)


def used_objects(service: Any, content: ProjectFile) -> dict[str, Any]:
    """The fields of the objects that a file names."""
    names = plan_of(service, content).names
    stored = {(item.kind, item.id): item.fields for item in read_service(service).objects}
    return {
        item.key.path: names.in_words_of_file(stored[item.key.kind, names.ids[item.key]])
        for item in content.objects
    }


SUMMARY = FileObject(
    key=ObjectKey(ObjectKind.ENDPOINT, "a"),
    fields={"channel": "EMAIL", "recipient": "a@x.org", "dailySummary": True},
)


def agent_with(**fields: str) -> ProjectFile:
    """A file of one agent."""
    key = ObjectKey(ObjectKind.AGENT, "a")
    return ProjectFile(name="f", objects=(FileObject(key=key, fields=fields),))


KEYS = [agent_with(langfuseSecretKey=key) for key in ("k1", "k2")]


@settings(max_examples=2 * settings().max_examples)
@given(files(), files(), st.integers(1, 40), st.booleans())
@example(agent_with(), KEYS[0], 1, True)
@example(agent_with(), KEYS[0], 2, True)
@example(*KEYS, 2, False)
@example(*KEYS, 2, True)
@example(ProjectFile(name="f", objects=()), ProjectFile(name="f", objects=(SUMMARY,)), 2, True)
def test_failure__leaves_a_state_from_which_the_next_apply_reaches_the_end(
    first: ProjectFile, second: ProjectFile, number: int, after: bool
) -> None:
    whole, broken = ServiceModel(), ServiceModel()
    for service in (whole, broken):
        apply(service, first)
    apply(whole, second, PRUNE)
    broken.fails_at, broken.fails_after = broken.writes + number, after
    with contextlib.suppress(Unavailable):
        apply(broken, second, PRUNE)
    broken.fails_at = None
    assert not apply(broken, second, PRUNE).conflicts
    assert plan_of(broken, second, PRUNE).visible_steps == ()
    assert used_objects(broken, second) == used_objects(whole, second)
    for name, collection in broken.collections.items():
        assert len(collection) == len(whole.collections[name]), name


@given(files(), files("other"))
def test_apply__never_touches_what_its_file_did_not_make(
    own: ProjectFile, other: ProjectFile
) -> None:
    service = ServiceModel()
    apply(service, other)
    before = content_of(service)
    foreign = {(record["kind"], record["objectId"]) for record in service.records.values()}
    plan = apply(service, own, PRUNE)
    assert not any((step.key.kind, step.object_id) in foreign for step in plan.steps)
    if plan.conflicts:
        assert content_of(service) == before


@given(files(), st.data())
def test_edit__of_a_field_that_the_file_names_is_never_overwritten(
    content: ProjectFile, data: st.DataObject
) -> None:
    service = ServiceModel()
    apply(service, content)
    agents = [item for item in content.objects if item.key.kind is ObjectKind.AGENT]
    if not agents:
        return
    item = data.draw(st.sampled_from(agents))
    object_id = plan_of(service, content).names.ids[item.key]
    service.patch(f"/agents/{object_id}", {"description": "of a page"})
    plan = apply(service, content)
    is_named = "description" in item.fields
    assert [conflict.key for conflict in plan.conflicts] == ([item.key] if is_named else [])
    assert service.collections["agents"][object_id]["description"] == "of a page"
    apply(service, content, PlanOptions(overwrite=True))
    shown = service.collections["agents"][object_id]["description"]
    assert shown == (item.fields["description"] if is_named else "of a page")


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)
)
def test_export__any_text_is_read_as_it_was(text: str) -> None:
    assert exported_description(text) == text


@pytest.mark.parametrize(
    "text",
    ["1e5", "0o17", "012", "no", "~", "- x", "${A}", "$${A}", "$$${A", "a: b", "#x", "a\nb\n"],
)
def test_export__texts_that_yaml_or_the_reader_could_misread_come_back(text: str) -> None:
    assert exported_description(text) == text


def exported_description(text: str) -> str:
    """A description after an apply, an export, and the reading of it."""
    service = ServiceModel()
    agent = FileObject(key=ObjectKey(ObjectKind.AGENT, "a"), fields={"description": text})
    apply(service, ProjectFile(name="f", objects=(agent,)))
    content = parse_project_file(content_of(service).encode(), {}, "f")
    return str(content.objects[0].fields["description"])
