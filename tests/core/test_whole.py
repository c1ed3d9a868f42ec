"""What others may see of a file while it is written, and when writing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import Failed
from pellucid.core.whole import replacing


def test_until_the_end_the_old_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with replacing(path) as part:
        part.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("error", "told"), [(OSError(28, "No space left"), Failed), (KeyError("x"), KeyError)])
def test_what_fails_leaves_the_old_file_and_no_part(tmp_path: Path, error: Exception, told: type) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(told), replacing(path) as part:
        part.write_bytes(b"ne")
        raise error
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with replacing(link) as part:
        part.write_bytes(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
