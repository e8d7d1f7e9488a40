"""`mosaico keys` and `mosaico people`: who may use the service. `mosaico audit`: read the audit log."""

from mosaico.core.console.filter_options import text_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.table import JSON, Column, field, format_cell, time_field
from mosaico.core.console.terminal import CommandGroup

cli = CommandGroup("keys", help="Manage API keys.")
people_cli = CommandGroup("people", help="Show the people who have logged in, and block them.")
audit = CommandGroup("audit", help="Show the audit log.")
audit_entries = Resource(group=audit, noun="audit entry", path="/audit", list_page="/audit")
keys = Resource(group=cli, noun="key", path="/keys", page="/keys")
people = Resource(group=people_cli, noun="person", path="/people", page="/people")

LIMIT = Column(
    "sees", lambda caller: "all" if caller["only"] is None else ", ".join(caller["only"])
)
COLUMNS = (
    field("id"),
    field("name"),
    field("role"),
    Column("state", lambda key: "revoked" if key["revokedAt"] else "active"),
    time_field("createdAt", "created"),
    time_field("lastUsedAt", "last used"),
    Column("expires", lambda key: key["expiresAt"]),
    LIMIT,
)
OPTIONS = {
    "name": FieldOption("NAME", help="Owner or purpose of the key.", is_argument=True),
    "role": FieldOption(help="Role of the key; each role includes the ones before it."),
    "expiresAt": FieldOption(
        help="Expiry with its UTC offset, such as 2027-01-31T12:00:00Z (default: never)."
    ),
    "personId": FieldOption(
        help="ID of the person whose key it is; it stops working when they are blocked."
    ),
    "only": FieldOption(help="ID of a benchmark that the key sees; repeat it. Default: all."),
}
PEOPLE_COLUMNS = (
    field("id"),
    field("name"),
    field("email", "address"),
    field("role"),
    Column("state", lambda person: "blocked" if person["blockedAt"] else "active"),
    time_field("lastLoginAt", "last login"),
    LIMIT,
)
AUDIT_COLUMNS = (
    time_field("at", "when"),
    Column("who", lambda entry: f"{entry['actorType']} {entry['actorName'] or entry['actorId']}"),
    field("action"),
    Column("what", lambda entry: f"{entry['resourceType']}/{entry['resourceId'] or ''}"),
    Column("fields", lambda entry: " ".join(entry["fields"])),
    field("outcome"),
    Column("request", lambda entry: entry["requestId"]),
)


def describe_created(key: JSON) -> list[str]:
    """Status line after a key was created."""
    return [f"key {key['id']} with role {key['role']} is created; save it now, it is shown once"]


def describe_key(key: JSON) -> str:
    """Name and role of a key, for the confirmation before it is revoked."""
    return f"{format_cell(key['name'])}, {key['role']}"


keys.add_list(COLUMNS, help_text="List API keys, newest first, including revoked keys.")
keys.add_show(help_text="Show an API key without its text.")
keys.add_create(
    "mosaico.access.schemas:ApiKeyCreate",
    options=OPTIONS,
    help_text="Create an API key and print it. The key is shown only once.",
    describe=describe_created,
    result_field="token",
)
keys.add_update(
    "mosaico.access.schemas:ApiKeyPatch",
    options={
        "name": FieldOption(help=OPTIONS["name"].help),
        "expiresAt": FieldOption(help="Expiry with its UTC offset, such as 2027-01-31T12:00:00Z."),
    },
)
keys.add_delete(
    verb="revoke",
    help_text="Revoke an API key permanently, within a second.",
    describe=describe_key,
)
people.add_list(PEOPLE_COLUMNS, help_text="List the people who have logged in, newest first.")
people.add_show(help_text="Show a person.")
people.add_update(
    "mosaico.access.schemas:PersonPatch",
    options={
        "blocked": FieldOption(help="Whether their access is blocked."),
        "only": FieldOption(help="ID of a benchmark that they see; repeat it."),
    },
)

audit_entries.add_list(
    AUDIT_COLUMNS,
    name="audit",
    filters={
        "actorId": text_filter("--actor", "Filter by the ID of the API key that was used."),
        "action": text_filter("--action", "Filter by action, such as create_agent."),
        "resourceType": text_filter("--resource", "Filter by resource type, such as agents."),
    },
    help_text="Show the audit log, newest first. Requires an admin key.",
)
