"""What stands before and after the events of a trace → device, rank and the clock's zero. Everything else is dropped.

    {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "computeMajor": 9, …}], "distributedInfo": {"rank": 0, …},
     "baseTimeNanoseconds": 1790857026000000000, "hostname": …, "env": …}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pellucid.trace.redact import Redactor
from pellucid.trace.timeline import Damage, Device

BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
KEEP = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit", "schemaVersion")
AMD = re.compile(r"roctracer|^hip_|rocprof")
# Profilers before PyTorch 2.3 count from 1970. 2001 in nanoseconds: no machine is up that long.
SINCE_1970_NS = 10**18


@dataclass(slots=True)
class Head:
    devices: tuple[Device, ...] = ()
    rank: int | None = None
    ranks_count: int | None = None
    base_ns: int | None = None
    keys: list[str] = field(default_factory=list)

    def wall_zero_ns(self, first_ns: int | None) -> int | None:
        """Unix time of the clock's zero. `first_ns`: any time of an event."""
        return 0 if first_ns is not None and first_ns >= SINCE_1970_NS else self.base_ns


def read_head(before: bytes, after: bytes, damage: Damage, redactor: Redactor) -> Head:
    found: dict[str, Any] = {}
    for text in (b"%b}" % before.strip().rstrip(b","), b"{%b" % after.strip().lstrip(b",")):
        found |= _object(text, damage)
    head = Head(keys=list(found))
    redactor.dropped_fields(head.keys)
    kept = {name: value for name in KEEP if (value := _value(found.get(name))) is not None}
    job = kept.get("distributedInfo")
    if isinstance(job, dict):
        head.rank, head.ranks_count = _count(job.get("rank")), _count(job.get("world_size"))
    amd = any(AMD.search(key) for key in head.keys)
    listed = kept.get("deviceProperties")
    head.devices = tuple(_device(i, d, amd, redactor) for i, d in enumerate(listed if isinstance(listed, list) else [])
                         if isinstance(d, dict))  # fmt: skip
    head.base_ns = _count(kept.get("baseTimeNanoseconds"))
    if head.base_ns is None and (told := BASE.search(before) or BASE.search(after)):
        head.base_ns = int(told[1])
    return head


def _object(text: bytes, damage: Damage) -> dict[str, msgspec.Raw]:
    """The keys of an object and their values, unread. An empty or a bare edge has none."""
    if not text.strip(b" \t\r\n{}],"):
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        damage.odd("what stands around the events is no JSON")
        return {}


def _value(raw: msgspec.Raw | None) -> Any:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _device(place: int, told: dict[str, Any], amd: bool, redactor: Redactor) -> Device:
    name = told.get("name")
    major, minor = _count(told.get("computeMajor")), _count(told.get("computeMinor"))
    nvidia = not amd and not (isinstance(name, str) and "AMD" in name) and major is not None and minor is not None
    index = _count(told.get("id"))
    return Device(
        index=place if index is None else index,
        name=redactor.text(name) if isinstance(name, str) and name else None,
        compute_capability=f"{major}.{minor}" if nvidia else None,
        processors_count=_count(told.get("numSms")),
        memory_bytes=_count(told.get("totalGlobalMem")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
