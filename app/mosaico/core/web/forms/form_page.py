"""Pages with one form that creates or edits a resource: checked by the schema of the API, with each error
beside its field, and refused with both versions when the resource has changed since the form was shown.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi import Request, Response

from mosaico.core.errors import Conflict, Invalid, NotFound, without_request
from mosaico.core.web.etag import PreconditionFailed
from mosaico.core.web.form_words import with_label, words_of
from mosaico.core.web.forms.body import read_form_body
from mosaico.core.web.forms.fields import Choices, InputKind
from mosaico.core.web.forms.local_times import FormZones, zones_of
from mosaico.core.web.forms.rendering import (
    FormInput,
    SchemaForm,
    input_names,
    list_inputs,
    place_errors,
    read_words,
    use_words,
)
from mosaico.core.web.forms.sent_fields import FormFields, check_form, errors_by_field
from mosaico.core.web.pages import Crumb, reader_zone, render_page, see_other

# The button that shows what a form means without saving it, and its name.
CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPage:
    """A page with a form.

    `values` are those of the API's view. `revision` is that of the edited resource, None for a new one;
    that of a resource without revisions is `revision_of` its fields. `preview` gives the values of the template that depend on
    the typed body; they are shown below the input `preview_at`. `submit_too` are the name and the text of a second button,
    which does more than save.
    `is_choice_first` is whether the inputs below the preview depend on those above it.
    """

    form: SchemaForm
    title: str
    nav: str
    steps: Sequence[Crumb]
    action: str
    back: str
    submit: str = "Save"
    submit_too: tuple[str, str] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, Choices] = field(default_factory=dict)
    revision: int | str | None = None
    template: str = "form.html"
    preview: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    preview_at: str = ""
    is_choice_first: bool = False

    @property
    def is_edit(self) -> bool:
        return self.revision is not None


class ChangedField(NamedTuple):
    """A field that differs between the stored version and the sent one."""

    label: str
    stored: Any
    typed: Any


def show_form(
    request: Request,
    page: FormPage,
    *,
    fields: FormFields | None = None,
    typed: Mapping[str, Any] | None = None,
    errors: Mapping[str, str] | None = None,
    message: str = "",
    status: int = HTTPStatus.OK,
    is_stale: bool = False,
) -> Response:
    """The form with the stored values, or with those that were typed in the sent `fields`."""
    values = page.values if typed is None else {**page.values, **typed}
    zones = FormZones(reader_zone(request), zones_of(fields or FormFields()))
    inputs = _inputs(page, values, {}, zones)
    words, placed = read_words(inputs), place_errors(errors or {}, inputs)
    inputs = use_words(_inputs(page, values, placed, zones), words)
    shown_names = input_names(inputs)
    stray = [
        with_label(words.translate(text), words_of(name))
        for name, text in placed.items()
        if name not in shown_names
    ]
    return render_page(
        request,
        page.template,
        title=page.title,
        nav=page.nav,
        status=status,
        has_secrets=True,
        page=page,
        inputs=inputs,
        message=" ".join([words.translate(message), *stray]).strip(),
        changes=_changes(_inputs(page, page.values, {}, zones), inputs) if is_stale else [],
        **(page.preview(values) if page.preview else {}),
    )


def submit_form(
    request: Request,
    fields: FormFields,
    load: Callable[[], FormPage],
    save: Callable[[Any], str],
) -> Response:
    """Check what a form sent and save it; shows the form again with its errors.

    `load` gives the page with the stored version. `save` gets the valid body, returns the address of the
    next page, and calls `require_revision` under the lock of an edited row.
    """
    page = load()
    typed = read_form_body(page.form, fields, is_edit=page.is_edit, choices=page.choices)
    checked = check_form(page.form.body(is_edit=page.is_edit), typed.document)
    errors = {**checked.errors, **typed.errors}
    if CHECK in fields:
        return show_form(request, page, fields=fields, typed=typed.typed, errors=errors)
    if checked.body is None or errors:
        return show_form(
            request, page, fields=fields, typed=typed.typed, errors=errors,
            message="Nothing was saved: correct the marked fields.",
            status=HTTPStatus.UNPROCESSABLE_ENTITY,
        )  # fmt: skip
    try:
        return see_other(save(checked.body))
    except PreconditionFailed:
        # Read again: the stored version is newer than the one that this request has read.
        return show_form(
            request, load(), fields=fields, typed=typed.typed, is_stale=True, status=HTTPStatus.CONFLICT,
            message="Nothing was saved: the resource changed after you opened the form.",
        )  # fmt: skip
    except (Invalid, Conflict, NotFound) as error:
        # The errors of fields say more than the sentence above them.
        reason = "correct the marked fields." if error.errors else without_request(error.detail)
        return show_form(
            request, page, fields=fields, typed=typed.typed, errors=errors_by_field(error.errors),
            message=f"Nothing was saved: {reason}", status=error.status,
        )  # fmt: skip


def revision_of(values: Mapping[str, Any]) -> str:
    """The revision of a resource that stores none: a digest of the fields that its form edits."""
    document = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(document.encode()).hexdigest()[:16]


def require_revision(fields: FormFields, revision: int | str) -> None:
    """Raise `PreconditionFailed` if the form shows another revision than the locked row has."""
    if fields.text("revision") != str(revision):
        raise PreconditionFailed


def _inputs(
    page: FormPage, values: Mapping[str, Any], errors: Mapping[str, str], zones: FormZones
) -> list[FormInput]:
    return list_inputs(
        page.form, values, is_edit=page.is_edit, errors=errors, choices=page.choices, zones=zones
    )


def _changes(
    stored_inputs: Sequence[FormInput], typed_inputs: Sequence[FormInput]
) -> list[ChangedField]:
    """The fields whose typed value is not the stored one. Secrets cannot be compared."""
    stored, typed = (
        {leaf.name: leaf for item in inputs for leaf in item.leaves()}
        for inputs in (stored_inputs, typed_inputs)
    )
    changes = []
    for name, leaf in (stored | typed).items():
        before, after = (leaves[name].value if name in leaves else "" for leaves in (stored, typed))
        if before != after and leaf.kind is not InputKind.SECRET:
            changes.append(ChangedField(leaf.label, before, after))
    return changes
