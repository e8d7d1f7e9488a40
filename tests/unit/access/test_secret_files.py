import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from app.core.secret_files import (
    UnsafeSecretFile,
    create_secret_file,
    read_secret_file,
    replace_secret_file,
)
from app.core.secrets import BadMasterKey, load_or_create_master_key

CONFIGURED = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # the bytes 0 to 31


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_that_is_not_there_holds_no_secret(tmp_path: Path) -> None:
    assert read_secret_file(tmp_path / "admin.key") is None


def test_a_secret_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_secret_file(tmp_path / "new" / "a.key", "text")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new" / "a.key") == 0o600
    assert mode(tmp_path / "new") == 0o700
    assert read_secret_file(tmp_path / "new" / "a.key") == "text"


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    create_secret_file(tmp_path / "a.key", "text")
    assert mode(tmp_path) == 0o755


def test_the_first_to_create_a_secret_file_decides_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    assert create_secret_file(path, "first") == "first"
    assert create_secret_file(path, "second") == "first"
    assert names(tmp_path) == ["a.key"]


def test_a_replaced_secret_file_holds_the_new_text_and_nothing_lies_beside_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.key"
    create_secret_file(path, "first")
    replace_secret_file(path, "second")
    assert read_secret_file(path) == "second"
    assert mode(path) == 0o600
    assert names(tmp_path) == ["a.key"]


@pytest.mark.parametrize("open_to", [0o640, 0o604, 0o666])
def test_a_secret_file_that_others_can_read_is_refused_with_the_remedy(
    tmp_path: Path, open_to: int
) -> None:
    path = tmp_path / "a.key"
    path.write_text("text")
    path.chmod(open_to)
    with pytest.raises(UnsafeSecretFile, match=f"chmod 600 {path}"):
        read_secret_file(path)


def test_a_secret_file_of_bytes_that_are_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    path.write_bytes(b"\xff\xfe")
    path.chmod(0o600)
    with pytest.raises(UnsafeSecretFile, match="delete it"):
        read_secret_file(path)


def test_a_folder_in_place_of_a_secret_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeSecretFile, match="is not a file"):
        read_secret_file(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnsafeSecretFile, match="MOSAICO_DATA_DIR"):
        create_secret_file(tmp_path / "file" / "a.key", "text")


def test_the_master_key_is_made_once_beside_the_embedded_database(tmp_path: Path) -> None:
    first = load_or_create_master_key(tmp_path, None, embedded=True)
    again = load_or_create_master_key(tmp_path, None, embedded=True)
    assert first.key_ids == again.key_ids
    assert mode(tmp_path / "master.key") == 0o600


def test_an_external_database_needs_a_configured_master_key(tmp_path: Path) -> None:
    with pytest.raises(BadMasterKey, match=r"MOSAICO_MASTER_KEY is not set.*openssl"):
        load_or_create_master_key(tmp_path, None, embedded=False)
    assert names(tmp_path) == []


def test_a_configured_master_key_needs_no_file(tmp_path: Path) -> None:
    for embedded in (True, False):
        box = load_or_create_master_key(tmp_path, CONFIGURED, embedded=embedded)
        assert len(box.key_ids) == 1
    assert names(tmp_path) == []


def test_a_key_configured_later_seals_while_the_file_still_opens(tmp_path: Path) -> None:
    place = {"table": "agents", "row": "1", "column": "c"}
    before = load_or_create_master_key(tmp_path, None, embedded=True)
    later = load_or_create_master_key(tmp_path, CONFIGURED, embedded=True)
    assert later.open(before.seal("text", **place), **place).reveal() == "text"
    assert later.key_ids[0] not in before.key_ids


def test_a_damaged_master_key_file_is_refused_and_kept(tmp_path: Path) -> None:
    create_secret_file(tmp_path / "master.key", "not a key")
    with pytest.raises(BadMasterKey):
        load_or_create_master_key(tmp_path, None, embedded=True)
    assert read_secret_file(tmp_path / "master.key") == "not a key"


def test_an_empty_master_key_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    path.touch(0o600)
    with pytest.raises(BadMasterKey, match="0 bytes"):
        load_or_create_master_key(tmp_path, None, embedded=True)


def made_key_ids(data_dir: str) -> tuple[str, ...]:
    return load_or_create_master_key(Path(data_dir), None, embedded=True).key_ids


def test_processes_that_start_at_once_share_one_master_key(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.map(made_key_ids, [str(tmp_path)] * 16, chunksize=1)
    assert len(set(found)) == 1
    assert names(tmp_path) == ["master.key"]
