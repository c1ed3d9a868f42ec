"""Files as they are found: packed, cut, half written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pellucid.core.packed import content, text_lines

TEXT = b"".join(b"line %d\n" % n for n in range(200_000))


def written(folder: Path, data: bytes) -> Path:
    (folder / "x").write_bytes(data)
    return folder / "x"


@pytest.mark.parametrize("data", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])])
def test_packed_or_not_is_the_same(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, data)
    assert content(path) == TEXT
    assert content(path, 10) == TEXT[:10]
    assert "".join(text_lines(path)).encode() == TEXT


@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_a_packed_file_that_is_cut_is_read_up_to_there(tmp_path: Path, keep: float) -> None:
    packed = gzip.compress(TEXT)
    path = written(tmp_path, packed[: int(len(packed) * keep)])
    assert 1000 < len(content(path)) < len(TEXT) and TEXT.startswith(content(path))


def test_a_packed_file_that_is_damaged_is_read_up_to_there(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    assert len(list(text_lines(written(tmp_path, bytes(packed))))) < 200_001


def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    assert list(text_lines(written(tmp_path, b"a\r\nb\xff\nc"))) == ["a\r\n", "b\ufffd\n", "c"]
    assert list(text_lines(written(tmp_path, b""))) == []
