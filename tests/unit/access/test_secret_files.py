"""Secret files: access rights, creation by several processes, the master key file."""

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from mosaico.core.encryption import load_secret_box
from mosaico.core.errors import Misconfigured
from mosaico.core.secret_files import (
    UnsafeSecretFile,
    create_secret_file,
    read_secret_file,
    replace_secret_file,
)

CONFIGURED = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # the bytes 0 to 31


def list_file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def permission_bits(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_read_secret_file__missing_file_gives_none(tmp_path: Path) -> None:
    assert read_secret_file(tmp_path / "admin.key") is None


def test_create_secret_file__only_the_owner_has_access(tmp_path: Path) -> None:
    # The most permissive one: the rights must come from the code, not from the environment.
    before = os.umask(0)
    try:
        create_secret_file(tmp_path / "new" / "a.key", "text")
    finally:
        os.umask(before)
    assert permission_bits(tmp_path / "new" / "a.key") == 0o600
    assert permission_bits(tmp_path / "new") == 0o700
    assert read_secret_file(tmp_path / "new" / "a.key") == "text"


def test_create_secret_file__existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    create_secret_file(tmp_path / "a.key", "text")
    assert permission_bits(tmp_path) == 0o755


def test_create_secret_file__existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    assert create_secret_file(path, "first") == "first"
    assert create_secret_file(path, "second") == "first"
    assert list_file_names(tmp_path) == ["a.key"]


def test_replace_secret_file__replaces_the_text_and_leaves_no_draft(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.key"
    create_secret_file(path, "first")
    replace_secret_file(path, "second")
    assert read_secret_file(path) == "second"
    assert permission_bits(path) == 0o600
    assert list_file_names(tmp_path) == ["a.key"]


@pytest.mark.parametrize("permissions", [0o640, 0o604, 0o666])
def test_read_secret_file__access_for_others_is_refused_with_a_remedy(
    tmp_path: Path, permissions: int
) -> None:
    path = tmp_path / "a.key"
    path.write_text("text")
    path.chmod(permissions)
    with pytest.raises(UnsafeSecretFile, match=f"chmod 600 {path}"):
        read_secret_file(path)


def test_read_secret_file__binary_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    path.write_bytes(b"\xff\xfe")
    path.chmod(0o600)
    with pytest.raises(UnsafeSecretFile, match="delete it"):
        read_secret_file(path)


def test_read_secret_file__folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeSecretFile, match="is not a regular file"):
        read_secret_file(tmp_path)


def test_create_secret_file__uncreatable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnsafeSecretFile, match="MOSAICO_DATA_DIR"):
        create_secret_file(tmp_path / "file" / "a.key", "text")


def test_master_key_file__is_created_once_with_the_embedded_database(tmp_path: Path) -> None:
    first = load_secret_box(tmp_path, None, embedded=True)
    again = load_secret_box(tmp_path, None, embedded=True)
    assert first.key_ids == again.key_ids
    assert permission_bits(tmp_path / "master.key") == 0o600


def test_load_secret_box__external_database_needs_a_configured_key(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"MOSAICO_MASTER_KEY is not set.*openssl"):
        load_secret_box(tmp_path, None, embedded=False)
    assert list_file_names(tmp_path) == []


def test_load_secret_box__configured_key_needs_no_file(tmp_path: Path) -> None:
    for embedded in (True, False):
        box = load_secret_box(tmp_path, CONFIGURED, embedded=embedded)
        assert len(box.key_ids) == 1
    assert list_file_names(tmp_path) == []


def test_load_secret_box__key_of_the_file_still_decrypts_after_configuration(
    tmp_path: Path,
) -> None:
    cell = {"table": "agents", "row": "1", "column": "c"}
    before = load_secret_box(tmp_path, None, embedded=True)
    later = load_secret_box(tmp_path, CONFIGURED, embedded=True)
    assert later.decrypt(before.encrypt("text", **cell), **cell).reveal() == "text"
    assert later.key_ids[0] not in before.key_ids


def test_master_key_file__damaged_file_is_refused_and_kept(tmp_path: Path) -> None:
    create_secret_file(tmp_path / "master.key", "not a key")
    with pytest.raises(Misconfigured):
        load_secret_box(tmp_path, None, embedded=True)
    assert read_secret_file(tmp_path / "master.key") == "not a key"


def test_master_key_file__empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    path.touch(0o600)
    with pytest.raises(Misconfigured, match="0 bytes"):
        load_secret_box(tmp_path, None, embedded=True)


def load_key_ids(data_dir: str) -> tuple[str, ...]:
    return load_secret_box(Path(data_dir), None, embedded=True).key_ids


def test_master_key_file__concurrent_processes_share_one_key(tmp_path: Path) -> None:
    # Processes and not threads: the file itself must decide who was first.
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        key_ids = pool.map(load_key_ids, [str(tmp_path)] * 16, chunksize=1)
    assert len(set(key_ids)) == 1
    assert list_file_names(tmp_path) == ["master.key"]
