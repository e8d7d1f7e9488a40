"""Forms that another site sends; the docstring of a test names its criterion in
`docs/page-criteria.md`."""

from typing import Final

import pytest
from sqlalchemy import text

from mosaico.api import PAGES
from mosaico.table_list import METADATA
from tests.browser.conftest import Site
from tests.support.every_page import fill_path, write_every_page

# The service notes its callers there, also those whom it refuses: whole tables, and when a key was last used.
NOTES: Final = frozenset({"audit_log", "rate_windows"})
pytestmark = pytest.mark.xdist_group("browser")


def test_every_form__of_another_site_changes_nothing(site: Site) -> None:
    """Criterion 28: each form that changes something, of rows that exist, with the session of an admin: its
    keys and sessions stay, too."""
    with site.service.resources.db.begin() as session:
        write_every_page(session)
    context = site.context()
    before = read_tables(site)
    routes = [route for router in PAGES for route in router.routes if route.method == "POST"]
    paths = sorted({fill_path(route.path) for route in routes})
    # Without paths the test would pass, too.
    assert len(paths) > 60
    assert {"/keys", "/keys/key-1/revoke", "/login", "/logout"} <= set(paths)
    for path in paths:
        for headers in (
            {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
            # Older browsers do not send Sec-Fetch-Site.
            {"Origin": "https://evil.example"},
        ):
            response = context.request.post(f"{site.url}{path}", headers=headers, max_redirects=0)
            assert response.status == 403, path
    assert read_tables(site) == before


def read_tables(site: Site) -> dict[str, str]:
    """A digest of each table, besides those with notes of the service."""
    with site.service.resources.db.read() as session:
        return {
            name: session.execute(
                text(
                    "SELECT md5(string_agg(row::text, ' ' ORDER BY row::text))"
                    f" FROM (SELECT to_jsonb(t) - 'last_used_at' AS row FROM {name} AS t) AS rows"
                )
            ).scalar_one()
            for name in METADATA.tables
            if name not in NOTES
        }
