"""Files of separated values, packed or not, whole or cut → rows as dictionaries of texts.

    list(rows(path, ",", damage))  == [{"Name": "k1", "Total Time (ns)": "1200"}, …]
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

from pellucid.core.errors import AskedWrongly
from pellucid.core.packed import content
from pellucid.trace.timeline import Damage

XZ_MAGIC = b"\xfd7zXZ"
MOST_BYTES = 1 << 30        # chosen: tables are small; a larger one would not fit in memory beside its rows
LONGEST_FIELD_BYTES = 1 << 20
LARGEST = 2.0**53           # where float64 stops telling whole numbers apart; as nanoseconds, 104 days
SHORT = "a row is cut or has too many fields"


def read_text(path: Path, damage: Damage) -> str:
    """Raises AskedWrongly where the file cannot be opened."""
    try:
        raw = content(path, MOST_BYTES + 1)
    except OSError as error:
        raise AskedWrongly(f"cannot read {path}: {error.strerror or error}") from error
    if raw.startswith(XZ_MAGIC):
        unpacker = lzma.LZMADecompressor()
        try:
            raw = unpacker.decompress(raw, MOST_BYTES + 1)
        except lzma.LZMAError as error:
            raise AskedWrongly(f"{path} is packed with xz and damaged: {error}") from error
        if not unpacker.eof:
            damage.odd("the packed file ends early: what could be unpacked was read")
    if len(raw) > MOST_BYTES:
        damage.odd(f"the table is longer than {MOST_BYTES} bytes: its beginning was read")
        raw = raw[:MOST_BYTES]
    return raw.decode(errors="replace").replace("\0", "").removeprefix("\ufeff")


def rows(lines: Sequence[str], damage: Damage, separator: str = ",", quoted: bool = True) -> Iterator[dict[str, str]]:
    """The first line has the names. A row with too many fields is left out and counted."""
    csv.field_size_limit(LONGEST_FIELD_BYTES)
    reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    names: list[str] = []
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error:
            damage.lost(SHORT)
            continue
        if not names:
            names = [value.strip() for value in values]
        elif any(values):
            if len(values) > len(names):
                damage.lost(SHORT)
            else:
                yield dict(zip(names, values, strict=False))


def number(text: str | None) -> float | None:
    """`1,234.5` and `12%` are numbers; None for anything else."""
    try:
        found = float((text or "").strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None
    return found if abs(found) < float("inf") else None


def whole(value: float | None) -> int | None:
    """The nearest whole number, where it fits in an int64 with room to add up."""
    return round(value) if value is not None and abs(value) < LARGEST else None


def lines_of(text: str) -> list[str]:
    return io.StringIO(text, newline="").readlines()
