"""Style sheets and scripts of the pages: how long browsers keep them, and that none is missing."""

import re

import pytest

from mosaico.core.web.static_files import FOLDER, STYLE_SHEETS, asset_url
from tests.support.service import Service


@pytest.mark.parametrize("name", ["base.css", "app.js", "icon.svg"])
def test_static_file__is_kept_forever_below_the_hash_only(name: str, service: Service) -> None:
    for address, is_kept in (
        (asset_url(name), True),
        (f"/static/{name}", False),
        # A page of another version asks for it while processes are replaced.
        (f"/static/0123456789ab/{name}", False),
    ):
        response = service.client.get(address)
        assert response.content == (FOLDER / name).read_bytes()
        assert ("immutable" in response.headers["cache-control"]) is is_kept, address
    assert service.client.get(asset_url("none.js")).status_code == 404


def test_script__every_module_is_imported_and_exists() -> None:
    imports = {
        file.name: set(re.findall(r'^import .*"\./([^"]+)";$', file.read_text("utf-8"), re.MULTILINE))
        for file in FOLDER.glob("*.js")
    }  # fmt: skip
    modules = set[str]().union(*imports.values())
    assert modules | {"app.js", "theme.js", "swagger-init.js"} == imports.keys()


def test_style_sheets__every_one_is_on_the_pages() -> None:
    assert {*STYLE_SHEETS, "swagger-page.css"} == {file.name for file in FOLDER.glob("*.css")}
