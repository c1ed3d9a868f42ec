"""Pieces of a file → the file, all of it or none: it is written beside its place and renamed when it is whole.

    write(export.pieces, Path("run.json.gz"), force=False)     packed, by its name
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from pellucid.core.errors import AskedWrongly
from pellucid.core.whole import replacing

LEVEL = 5       # of gzip: 9 takes several times as long for a few percent


def check(path: Path, force: bool) -> None:
    """Before anything is made. Raises AskedWrongly where the file is there or cannot be."""
    if path.is_dir():
        raise AskedWrongly(f"{path} is a folder. Try: {path / 'run.json.gz'}")
    if path.exists() and not path.is_file():
        raise AskedWrongly(f"{path} is no regular file. Try: - for stdout, or another name")
    if path.exists() and not force:
        raise AskedWrongly(f"{path} is there already. Try: --force, or another name")
    if not path.parent.is_dir():
        raise AskedWrongly(f"cannot write {path}: there is no folder {path.parent}")


def write(pieces: Iterator[bytes], path: Path, force: bool) -> int:
    """Bytes on the disk. Raises AskedWrongly as `check`, Failed where the disk refuses; then no part is left."""
    check(path, force)
    packed = path.resolve().suffix == ".gz"
    with replacing(path) as part, ExitStack() as stack:
        out: IO[bytes] | gzip.GzipFile = stack.enter_context(part.open("wb"))
        if packed:
            out = stack.enter_context(gzip.GzipFile("", "wb", LEVEL, out, mtime=0))
        for piece in pieces:
            out.write(piece)
    return path.stat().st_size
