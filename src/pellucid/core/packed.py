"""Files that may be packed with gzip, and may be cut or still be written: read up to where they stop making sense."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 1 << 20


def content(path: Path, most_bytes: int | None = None) -> bytes:
    """The beginning of a file, or all of it. Raises OSError."""
    found, size = [], 0
    for chunk in _chunks(path):
        found.append(chunk)
        size += len(chunk)
        if most_bytes is not None and size >= most_bytes:
            break
    return b"".join(found)[:most_bytes]


def text_lines(path: Path) -> Iterator[str]:
    """Lines with their line ends; the last may have none. Raises OSError."""
    rest = b""
    for chunk in _chunks(path):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace") + "\n"
    if rest:
        yield rest.decode(errors="replace")


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as f:
        packed = f.read(2) == MAGIC
    with gzip.open(path) if packed else path.open("rb") as f:
        while True:
            try:
                chunk = f.read1(CHUNK_BYTES)
            except (EOFError, gzip.BadGzipFile, zlib.error):
                return
            if not chunk:
                return
            yield chunk
