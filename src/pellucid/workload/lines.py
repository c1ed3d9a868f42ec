"""Lines of a file, packed or not, one at a time; what is wrong with its end is said.

    lines = Lines(path)
    for text in lines: ...        "4808,10"        without line ends
    lines.open_end                the last line had no line end: it may be cut
    lines.cut                     the packed data stop before their end, or are damaged: the line it was in is not given
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pellucid.core.packed import MAGIC

MOST_BYTES = 16 * 2**20     # of a line; chosen: a prompt of a million tokens in blocks of one is half of it


@dataclass(slots=True)
class Lines:
    path: Path
    open_end: bool = False
    cut: bool = False
    too_long_count: int = 0             # lines that were left out for their length

    def __iter__(self) -> Iterator[str]:
        """Raises OSError where the file cannot be opened."""
        with self.path.open("rb") as f:
            packed = f.read(2) == MAGIC
        with gzip.open(self.path) if packed else self.path.open("rb") as source:
            while line := self._next(source):
                if len(line) >= MOST_BYTES and not line.endswith(b"\n"):
                    self.too_long_count += 1
                    while (rest := self._next(source)) and not rest.endswith(b"\n"):
                        pass
                    continue
                self.open_end = not line.endswith(b"\n")
                text = line.decode(errors="replace").strip()
                if text:
                    yield text.removeprefix("\ufeff")

    def _next(self, source: IO[bytes] | gzip.GzipFile) -> bytes:
        try:
            return source.readline(MOST_BYTES)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            self.cut = True
            return b""
