"""Retention: the oldest sealed segments of raw tables go when a run is too large or they are too old.

    steps-000000.parquet       sealed 8 days ago    goes: retain_s is 7 days; step_minutes-000000.parquet stays
    steps-000001.parquet       sealed 2 days ago    goes if the run is above retain_bytes
    requests-000000.parquet    sealed 8 days ago    stays: `requests` is not raw
    steps-000002.arrows        the open tail        stays

Age counts on the recorder's own clock from when it first saw the segment, so a stepped wall clock deletes nothing;
a recorder that was restarted keeps segments longer, never shorter. Tails and other tables are never touched. What a
step told is kept by the minute before it goes (`roll_up`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.core.settings import number
from pellucid.core.units import S_NS
from pellucid.store.roll_up import keep
from pellucid.store.schema import STEPS, TABLES
from pellucid.store.segment import number_of

EVERY_NS = 60 * S_NS


@dataclass(frozen=True, slots=True)
class Retention:
    retain_bytes: float = math.inf
    retain_s: float = math.inf


def as_set() -> Retention:
    """What the settings say. Raises AskedWrongly on a bad one."""
    return Retention(number("retain_bytes"), number("retain_s"))


@dataclass(slots=True)
class Expiry:
    folder: Path
    retention: Retention
    expired_count: int = 0
    _seen_ns: dict[Path, int] = field(default_factory=dict)
    _looked_ns: int | None = None

    def tick(self, now_ns: int) -> None:
        """Looks at most once a minute. A segment that cannot be deleted is tried again then; nothing is raised."""
        if self._looked_ns is None or now_ns - self._looked_ns >= EVERY_NS:
            self._looked_ns = now_ns
            for path in self.due(now_ns):
                self._delete(path)

    def due(self, now_ns: int) -> list[Path]:
        """Segments that have to go, oldest first."""
        raw = self._raw(now_ns)
        excess_bytes = _size_bytes(self.folder) - self.retention.retain_bytes
        gone = []
        for path, size_bytes in raw:
            old = now_ns - self._seen_ns[path] > self.retention.retain_s * S_NS
            if old or excess_bytes > 0:
                gone.append(path)
                excess_bytes -= size_bytes
        return gone

    def _raw(self, now_ns: int) -> list[tuple[Path, int]]:
        """Sealed segments of raw tables with their sizes, oldest first."""
        found = []
        for table in (t for t in TABLES.values() if t.raw):
            sealed_ns = 0     # wall time, which may go back: then the number says which one is older
            for path in sorted(self.folder.glob(f"{table.name}-[0-9]*.parquet"), key=number_of):
                try:
                    stat = path.stat()
                except FileNotFoundError:
                    continue
                self._seen_ns.setdefault(path, now_ns)
                sealed_ns = max(sealed_ns, stat.st_mtime_ns)
                found.append((self._seen_ns[path], sealed_ns, number_of(path), path, stat.st_size))
        return [(path, size_bytes) for *_, path, size_bytes in sorted(found)]

    def _delete(self, path: Path) -> None:
        try:
            if path.name.startswith(f"{STEPS.name}-"):
                keep(self.folder, path)
            path.unlink(missing_ok=True)
        except OSError:
            return
        self._seen_ns.pop(path, None)
        self.expired_count += 1


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        if path.suffix in (".parquet", ".arrows"):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                continue
    return total
