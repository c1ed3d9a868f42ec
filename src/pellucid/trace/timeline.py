"""A kernel trace in columns: what ran on the device, what the host did, and which of the two launched which.

Each loader gives one of three types; nothing else of a file goes further:

    Timeline      a row for each execution, with its times     torch profiler, nsys SQLite, nsys cuda_gpu_trace
    KernelTable   a row for each name, sums only               nsys cuda_gpu_kern_sum, tables that people publish
    Launches      what a kernel profiler counted in executions ncu CSV

    timeline.names[timeline.kernels.name[0]]          == "fused_moe_kernel"
    timeline.kernels.duration_ns[0]                   == 614452
    timeline.names[timeline.host.name[timeline.kernels.op[0]]]  == "moe_forward"

Texts are kept once and columns hold their numbers. A number nobody told is -1 in an integer column of ids, bytes or
correlations, which are never negative; None everywhere else. Times are int64 nanoseconds in the clock of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Ids = NDArray[np.int32]         # numbers in one of the tuples of a Timeline
Codes = NDArray[np.int8]        # numbers in KINDS or HOST_KINDS

NOT_TOLD = -1
KINDS = ("kernel", "memcpy", "memset", "sync", "graph")     # graph: a device graph traced whole, kernels not visible
KERNEL, MEMCPY, MEMSET, SYNC, GRAPH = range(len(KINDS))
HOST_KINDS = ("op", "runtime", "annotation", "gpu_annotation", "overhead")
OP, RUNTIME, ANNOTATION, GPU_ANNOTATION, OVERHEAD = range(len(HOST_KINDS))


@dataclass(frozen=True, slots=True)
class Device:
    """A device the file describes, whether or not anything ran on it."""

    index: int
    name: str | None
    compute_capability: str | None      # such as 9.0; None on devices without one
    processors_count: int | None        # multiprocessors or compute units
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class About:
    """Where the columns come from and what was not whole."""

    format: str                         # torch_profiler, nsys_sqlite, nsys_csv, ncu_csv or kernel_table
    file: str                           # name of the file, without its folder
    trace_bytes: int                    # size of the file as it lies on the disk
    devices: tuple[Device, ...] = ()
    rank: int | None = None
    ranks_count: int | None = None
    wall_zero_ns: int | None = None     # Unix time at which the clock of the file was 0
    damaged_count: int = 0              # events or rows that could not be read
    damage: tuple[str, ...] = ()        # what was not whole, a sentence each
    redacted_count: int = 0             # values dropped because they may be secret

    def device(self, index: int) -> Device | None:
        """What the file says of a device. Where all it describes are of one kind, that of an index it does not list."""
        exact = [d for d in self.devices if d.index == index]
        alike = {replace(d, index=index) for d in self.devices}
        return exact[0] if exact else alike.pop() if len(alike) == 1 else None


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """What ran on devices, sorted by start. All columns are of the same length."""

    name: Ids               # in Timeline.names
    kind: Codes             # in KINDS
    start_ns: Longs
    duration_ns: Longs
    device: Ids             # number of the device; -1 not told
    stream: Longs           # number of the stream; -1 not told
    correlation: Longs      # the profiler's number of the launch, shared by all kernels of a graph launch; -1 not told
    launch: Longs           # row of the runtime call in Timeline.host; -1 none
    op: Longs               # row of the innermost operator around that call in Timeline.host; -1 none
    grid: Ids               # in Timeline.extents: blocks; -1 not told
    block: Ids              # in Timeline.extents: threads of a block; -1 not told
    copied_bytes: Longs     # of a copy or a fill; -1 not told
    graph: Longs            # the profiler's number of the executable graph; -1 none
    graph_node: Longs       # the profiler's number of the node in a graph; -1 none
    collective: Ids         # in Timeline.texts: JSON of what a communication kernel moves; -1 none

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class HostEvents:
    """What the host did, sorted by start, the longer first. Annotations of a device are among them."""

    name: Ids               # in Timeline.names
    kind: Codes             # in HOST_KINDS
    start_ns: Longs
    duration_ns: Longs
    thread: Ids             # in Timeline.threads
    correlation: Longs      # of a runtime call; -1 none
    shapes: Ids             # in Timeline.texts: an operator's input shapes as JSON; -1 not told
    types: Ids              # in Timeline.texts: its input types as JSON; -1 not told
    scalars: Ids            # in Timeline.texts: its inputs that are no tensors, as JSON; -1 not told

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    about: About
    kernels: Kernels
    host: HostEvents
    names: tuple[str, ...]                          # of kernels and of host events
    texts: tuple[str, ...]                          # JSON
    extents: tuple[tuple[int, int, int], ...]       # grids and blocks: x, y, z
    threads: tuple[tuple[int, int], ...]            # (process, thread); of a device's annotation (device, stream)

    def sums_ns(self) -> dict[str, int]:
        """Time per name over kernels, copies and fills not counted."""
        mine = self.kernels.kind == KERNEL
        sums = np.zeros(len(self.names), np.int64)
        np.add.at(sums, self.kernels.name[mine], self.kernels.duration_ns[mine])
        ran = np.bincount(self.kernels.name[mine], minlength=len(self.names))
        return {self.names[i]: int(sums[i]) for i in np.flatnonzero(ran)}

    def count(self, kind: int = KERNEL) -> int:
        return int(np.count_nonzero(self.kernels.kind == kind))


@dataclass(frozen=True, slots=True)
class KernelRow:
    """All executions of a name in a table of sums, or of a name and a launch geometry where the table parts them."""

    name: str
    count: float | None                 # executions; a mean over ranks or steps need not be whole
    total_ns: int | None                # None where the table tells shares only
    share_ratio: float | None = None    # of the table's own whole, where the table tells it
    mean_ns: float | None = None
    min_ns: float | None = None
    max_ns: float | None = None
    median_ns: float | None = None
    role: str | None = None             # what its author says it is for
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class KernelTable:
    about: About
    per: str                            # capture: sums over all of it. step: means for one engine step
    names_cut: bool                     # the table shortens long names
    rows: tuple[KernelRow, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    section: str | None                 # section of the report; None in a plain table of metrics
    metric: str                         # as the profiler spells it
    unit: str                           # as told, after byte, ns and hz were made of their multiples; "" for none
    value: float | None
    text: str | None                    # the value where it is no number


@dataclass(frozen=True, slots=True)
class Launch:
    number: int                         # of the execution in the report
    name: str
    device: int | None
    stream: int | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    compute_capability: str | None
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class Launches:
    about: About
    launches: tuple[Launch, ...]


Trace = Timeline | KernelTable | Launches


Text = TypeVar("Text", str, bytes, int, tuple[int, int, int])


@dataclass(slots=True)
class Damage:
    """What was not whole, while a file is being read."""

    count: int = 0
    said: Counter[str] = field(default_factory=Counter)

    def lost(self, what: str, count: int = 1) -> None:
        """Events or rows that could not be read."""
        if count:
            self.count += count
            self.said[what] += count

    def odd(self, what: str) -> None:
        """Something that was not as it should be, and cost nothing that can be counted."""
        self.said[what] += 1

    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{what} ({count} times)" if count > 1 else what for what, count in self.said.items())


class Numbered(dict[Text, int]):
    """Texts and their numbers: a text that was not seen yet gets the next."""

    def __missing__(self, text: Text) -> int:
        number = self[text] = len(self)
        return number


Columns = TypeVar("Columns", Kernels, HostEvents)


def taken(columns: Columns, rows: Longs) -> Columns:
    """The rows of these numbers, in their order."""
    return replace(columns, **{f.name: getattr(columns, f.name)[rows] for f in fields(columns)})


def kernels_of(columns: Mapping[str, NDArray[np.int64]]) -> Kernels:
    """Kernels of columns that are there; the others are not told. Raises KeyError without name, kind, start and end."""
    return _filled(Kernels, columns)


def host_of(columns: Mapping[str, NDArray[np.int64]]) -> HostEvents:
    return _filled(HostEvents, columns)


MUST = ("name", "kind", "start_ns", "duration_ns")


def _filled(kind: type[Columns], columns: Mapping[str, NDArray[np.int64]]) -> Columns:
    count = len(columns["name"])
    made = {}
    for column in fields(kind):
        dtype = {"Ids": np.int32, "Codes": np.int8}.get(str(column.type), np.int64)
        given = columns[column.name] if column.name in MUST else columns.get(column.name)
        made[column.name] = np.full(count, NOT_TOLD, dtype) if given is None else np.asarray(given, dtype)
    return kind(**made)
