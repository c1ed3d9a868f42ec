"""A file is there whole, or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.verbs.export.write import write


def test_a_file_is_packed_by_its_name(tmp_path: Path) -> None:
    assert write(iter([b"a", b"b"]), tmp_path / "x.json", False) == 2
    write(iter([b"a", b"b"]), tmp_path / "x.json.gz", False)
    assert gzip.decompress((tmp_path / "x.json.gz").read_bytes()) == (tmp_path / "x.json").read_bytes() == b"ab"


def test_a_file_that_is_there_stays_without_force(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"old")
    with pytest.raises(AskedWrongly, match=r"is there already\. Try: --force"):
        write(iter([b"new"]), path, False)
    assert path.read_bytes() == b"old"
    write(iter([b"new"]), path, True)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_was_cut_leaves_the_old_file_and_no_part(tmp_path: Path, error: BaseException) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise error

    path = tmp_path / "x.json"
    path.write_bytes(b"old")
    with pytest.raises(Failed if isinstance(error, OSError) else KeyboardInterrupt):
        write(pieces(), path, True)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x.json", b"old")]


@pytest.mark.parametrize("name", [".", "nowhere/x.json"])
def test_where_no_file_can_be_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(AskedWrongly, match=r"is a folder|there is no folder"):
        write(iter([]), tmp_path / name, False)


def test_what_is_no_regular_file_stays_whatever_is_forced() -> None:
    with pytest.raises(AskedWrongly, match="no regular file"):
        write(iter([b"x"]), Path("/dev/full"), force=True)
    assert Path("/dev/full").is_char_device()


def test_what_a_link_leads_to_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("old")
    (tmp_path / "link.json").symlink_to("there.json")
    write(iter([b"new"]), tmp_path / "link.json", force=True)
    assert ((tmp_path / "there.json").read_text(), (tmp_path / "link.json").is_symlink()) == ("new", True)
