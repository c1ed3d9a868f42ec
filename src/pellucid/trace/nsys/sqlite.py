"""An SQLite export of Nsight Systems → a Timeline.

    CUPTI_ACTIVITY_KIND_KERNEL    start  end  deviceId  streamId  correlationId  globalPid  demangledName  gridX …
    CUPTI_ACTIVITY_KIND_RUNTIME   start  end  globalTid  correlationId  nameId
    NVTX_EVENTS                   start  end  eventType  globalTid  text  textId

Schemas differ by version and by what was traced: a table or a column that is not there is not told. Read are these
tables, the texts they point to, and facts about devices. Environment, processes, command lines and output are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pellucid.core.errors import AskedWrongly
from pellucid.trace.link import Hints, distinct, linked
from pellucid.trace.nsys.ranges import Ranges, read_ranges
from pellucid.trace.nsys.tables import Database
from pellucid.trace.redact import Redactor
from pellucid.trace.timeline import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    NOT_TOLD,
    OVERHEAD,
    RUNTIME,
    SYNC,
    About,
    Damage,
    Device,
    Longs,
    Numbered,
    Timeline,
    host_of,
    kernels_of,
)  # fmt: skip

FORMAT = "nsys_sqlite"
PREFIX = "CUPTI_ACTIVITY_KIND_"
KERNEL_TABLE = PREFIX + "KERNEL"
# Three extents in one number of 31, 16 and 16 bits. Limits in CUDA: a grid 2**31 - 1, 65535, 65535; a block 1024.
EXTENT = "({0}X << 32) | ({0}Y << 16) | {0}Z"
ON_DEVICE = {"start": "start", "end": "end", "device": "deviceId", "stream": "streamId", "correlation": "correlationId",
             "process": "globalPid", "graph": "graphId", "graph_node": "graphNodeId"}  # fmt: skip
TABLES = {
    KERNEL_TABLE: (KERNEL, {**ON_DEVICE, "name": "demangledName", "grid": EXTENT.format("grid"),
                            "block": EXTENT.format("block")}),
    PREFIX + "MEMCPY": (MEMCPY, {**ON_DEVICE, "name": "copyKind", "copied_bytes": "bytes"}),
    PREFIX + "MEMSET": (MEMSET, {**ON_DEVICE, "copied_bytes": "bytes"}),
    PREFIX + "SYNCHRONIZATION": (SYNC, {**ON_DEVICE, "name": "syncType"}),
    PREFIX + "GRAPH_TRACE": (GRAPH, ON_DEVICE),
}  # fmt: skip
SHORT_NAME = {"name": "shortName"}      # read where a kernel has no other
ON_HOST = {"start": "start", "end": "end", "thread": "globalTid", "correlation": "correlationId", "name": "nameId"}
HOST_TABLES = {PREFIX + "RUNTIME": RUNTIME, PREFIX + "OVERHEAD": OVERHEAD, "PROFILER_OVERHEAD": OVERHEAD}
# Enumerations of CUPTI (ENUM_CUDA_MEMCPY_OPER, ENUM_CUPTI_SYNC_TYPE), spelt as the torch profiler spells them.
COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
          11: "HtoD", 12: "DtoH", 13: "DtoD"}  # fmt: skip
SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
API_VERSION = re.compile(r"_v\d+$")     # cudaLaunchKernel_v7000
SECRET_TABLES = ("TARGET_INFO_SYSTEM_ENV", "PROCESSES", "META_DATA_CAPTURE", "META_DATA_EXPORT", "ProcessStreams",
                 "ANALYSIS_FILE", "ThreadNames")  # fmt: skip
IDS_AT_ONCE = 900                       # SQLite allows 999 values in a statement in its oldest setting
PID_SHIFT, PID_MASK = 24, 0xFFFFFF      # a global id is … process (24 bits) | thread (24 bits)
LOG = "a write-ahead log lies beside the file, so its writer may not have finished: what is in the log was not read"
BACKWARDS = "an event ends before it starts"
GRAPHS = "device graphs were traced whole: their kernels are not visible. Try: nsys profile --cuda-graph-trace=node"


@dataclass(slots=True)
class Reading:
    database: Database
    damage: Damage = field(default_factory=Damage)
    redactor: Redactor = field(default_factory=Redactor)
    names: Numbered[str] = field(default_factory=Numbered)
    extents: Numbered[int] = field(default_factory=Numbered)
    texts: dict[int, str] = field(default_factory=dict)

    def named(self, ids: Longs, known: Mapping[int, str] | None = None, otherwise: str = "") -> Longs:
        """Numbers in `names` of what StringIds, or `known`, calls these ids."""
        unique, which = distinct(ids)
        if known is None:
            self._look_up(unique)
            known = self.texts
        return np.array([self.names[known.get(int(i), otherwise)] for i in unique], np.int64)[which]

    def _look_up(self, ids: Longs) -> None:
        wanted = [int(i) for i in ids if int(i) not in self.texts]
        for at in range(0, len(wanted), IDS_AT_ONCE):
            part = wanted[at:at + IDS_AT_ONCE]
            query = f"SELECT id, value FROM StringIds WHERE id IN ({', '.join('?' * len(part))})"
            for number, text in self.database.rows(query, self.damage, part):
                self.texts[number] = API_VERSION.sub("", str(text))

    def extent(self, packed: Longs) -> Longs:
        unique, which = distinct(packed)
        return np.array([NOT_TOLD if v < 0 else self.extents[int(v)] for v in unique], np.int64)[which]


def read(path: Path) -> Timeline:
    """Raises AskedWrongly where the file is no database, or one of something else."""
    with Database(path) as database:
        if not database.names & {*TABLES, *HOST_TABLES, "NVTX_EVENTS"}:
            raise AskedWrongly(f"{path} is a database, but no export of Nsight Systems: it has no table "
                               f"{KERNEL_TABLE}")  # fmt: skip
        reading = Reading(database)
        if Path(f"{path}-wal").is_file() and Path(f"{path}-wal").stat().st_size:
            reading.damage.odd(LOG)
        for table, wanted in [*((t, w) for t, (_, w) in TABLES.items()), *((t, ON_HOST) for t in HOST_TABLES)]:
            database.begin(table, wanted)
        device = _joined([_device_part(reading, table) for table in TABLES])
        ranges = read_ranges(database, reading.damage)
        host, threads = _host(reading, ranges)
        kernel_process = device.pop("process")
        host_process = np.array([process for process, _ in threads], np.int64)[host["thread"]] if threads else None
        hints = Hints(kernel_process >> PID_SHIFT & PID_MASK, host_process)
        if not (kernel_process >= 0).any():
            hints = Hints()
        kernels, events = linked(kernels_of(device), host_of(host), hints)
        names = tuple(reading.redactor.text(name) for name in reading.names)
        return Timeline(_about(path, reading), kernels, events, names, tuple(ranges.texts),
                        tuple((v >> 32, v >> 16 & 0xFFFF, v & 0xFFFF) for v in reading.extents), threads)  # fmt: skip


def _device_part(reading: Reading, table: str) -> dict[str, Longs]:
    kind, wanted = TABLES[table]
    columns = reading.database.columns(table, wanted, reading.damage)
    if kind == KERNEL and "start" in columns:
        columns["name"] = _names(reading.database, columns.get("name"), len(columns["start"]))
    found = _whole(columns, reading.damage)
    if not found:
        return {}
    count = len(found["start_ns"])
    ids = found.pop("name") if "name" in found else np.full(count, NOT_TOLD, np.int64)
    if kind == KERNEL:
        found["name"] = reading.named(ids)
    elif kind == SYNC:
        found["name"] = reading.named(ids, SYNCS, "Sync")
    elif kind == MEMCPY:
        found["name"] = reading.named(ids, {k: f"Memcpy {way}" for k, way in COPIES.items()}, "Memcpy")
    else:
        found["name"] = reading.named(ids, {}, "Memset" if kind == MEMSET else "Graph")
    if kind == GRAPH and count:
        reading.damage.odd(GRAPHS)
    return {**found, "kind": np.full(count, kind, np.int64),
            **{side: reading.extent(found[side]) for side in ("grid", "block") if side in found}}  # fmt: skip


def _names(database: Database, told: Longs | None, count: int) -> Longs:
    """Numbers of the kernels' names, and of their short names where there are no others."""
    if told is not None and (told >= 0).all():
        return told
    short = database.columns(KERNEL_TABLE, SHORT_NAME, Damage()).get("name")
    if short is None or len(short) != count:
        short = np.full(count, NOT_TOLD, np.int64)
    return short if told is None else np.where(told >= 0, told, short)


def _whole(found: dict[str, Longs], damage: Damage) -> dict[str, Longs]:
    """Times as start and duration; nothing where they are not told."""
    if not {"start", "end"} <= found.keys():
        return {}
    start, end = found.pop("start"), found.pop("end")
    good = end >= start
    damage.lost(BACKWARDS, int((~good).sum()))
    columns = {**found, "start_ns": start, "duration_ns": end - start}
    return columns if good.all() else {name: values[good] for name, values in columns.items()}


def _host(reading: Reading, ranges: Ranges) -> tuple[dict[str, Longs], tuple[tuple[int, int], ...]]:
    parts = [{**ranges.columns, "name": np.array([reading.names[n] for n in ranges.names], np.int64)}]
    for table, kind in HOST_TABLES.items():
        found = _whole(reading.database.columns(table, ON_HOST, reading.damage), reading.damage)
        if found:
            count = len(found["start_ns"])
            ids = found.pop("name") if "name" in found else np.full(count, NOT_TOLD, np.int64)
            parts.append({**found, "name": reading.named(ids), "kind": np.full(count, kind, np.int64)})
    host = _joined(parts)
    unique, which = distinct(host["thread"])
    return {**host, "thread": which}, tuple((int(t) >> PID_SHIFT & PID_MASK, int(t) & PID_MASK) for t in unique)


def _joined(parts: list[dict[str, Longs]]) -> dict[str, Longs]:
    """Parts under one another; what a part does not tell is -1."""
    names = dict.fromkeys(("name", "kind", "start_ns", "duration_ns", "process", "thread"))
    names |= dict.fromkeys(name for part in parts for name in part)
    parts = [part for part in parts if len(part.get("start_ns", ()))]
    if len(parts) == 1:
        return {name: _column(parts[0], name) for name in names}
    return {name: np.concatenate([np.zeros(0, np.int64), *(_column(part, name) for part in parts)]) for name in names}


def _column(part: Mapping[str, Longs], name: str) -> Longs:
    found = part.get(name)
    return np.full(len(part["start_ns"]), NOT_TOLD, np.int64) if found is None else found


def _about(path: Path, reading: Reading) -> About:
    database, damage = reading.database, reading.damage
    for table in SECRET_TABLES:
        reading.redactor.dropped(sum(n for n, in database.rows(f'SELECT count(*) FROM "{table}"', damage)))
    started = list(database.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1", damage))
    return About(
        format=FORMAT, file=path.name, trace_bytes=path.stat().st_size, devices=_devices(reading),
        wall_zero_ns=_number(started[0][0]) if started else None, damaged_count=damage.count,
        damage=damage.sentences(), redacted_count=reading.redactor.count,
    )  # fmt: skip


def _devices(reading: Reading) -> tuple[Device, ...]:
    wanted = ("cuDevice", "id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor")
    there = [column for column in wanted if reading.database.has("TARGET_INFO_GPU", column)]
    if not there:
        return ()
    found = []
    for row in reading.database.rows(f"SELECT {', '.join(there)} FROM TARGET_INFO_GPU", reading.damage):
        told = dict(zip(there, row, strict=True))
        major, minor = _number(told.get("computeMajor")), _number(told.get("computeMinor"))
        number = _number(told.get("cuDevice"))
        found.append(Device(
            index=(_number(told.get("id")) or 0) if number is None else number,
            name=reading.redactor.text(str(told["name"])) if told.get("name") else None,
            compute_capability=None if major is None or minor is None else f"{major}.{minor}",
            processors_count=_number(told.get("smCount")), memory_bytes=_number(told.get("totalMemory")),
        ))  # fmt: skip
    return tuple(found)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
