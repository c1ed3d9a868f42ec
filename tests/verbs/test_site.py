"""The site's key and the probe's folder."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pellucid.core.errors import Failed
from pellucid.verbs.site import given_folder, make_folder, put_key, remove_folder, site_key, sweep


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    key = site_key(tmp_path / "home")
    assert len(key) == 32 and site_key(tmp_path / "home") == key
    assert (tmp_path / "home" / "key").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in (tmp_path / "home").iterdir()] == ["key"]


def test_first_calls_at_once_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: site_key(tmp_path / "home"), range(32)))
    assert len(keys) == 1


def test_a_cut_key_is_refused_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(Failed, match="holds 5 bytes"):
        site_key(tmp_path)


def test_a_key_that_is_in_the_probe_folder_stays(tmp_path: Path) -> None:
    put_key(tmp_path, b"a" * 32)
    put_key(tmp_path, b"b" * 32)
    assert (tmp_path / "key").read_bytes() == b"a" * 32


def test_a_probe_folder_is_private_and_goes_at_the_end(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    remove_folder(folder)
    assert not folder.path.exists()


def test_a_folder_the_user_gave_is_never_removed(tmp_path: Path) -> None:
    remove_folder(given_folder(tmp_path))
    assert tmp_path.exists()


def test_only_folders_nobody_holds_are_swept(tmp_path: Path) -> None:
    held, left = make_folder(tmp_path), make_folder(tmp_path)
    (tmp_path / "pellucid-run-without-lock").mkdir()
    assert left.owner_fd is not None
    os.close(left.owner_fd)
    assert sweep(tmp_path) == [left.path]
    assert held.path.exists() and (tmp_path / "pellucid-run-without-lock").exists()
