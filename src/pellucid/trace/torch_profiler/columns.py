"""Events → columns, a block at a time, so that no event outlives its block.

    columns.add(events)  …  columns.timeline(about)

Kept: what ran on devices, operators, runtime calls, annotations, the profiler's own overhead. Dropped: Python
functions, memory events, flows, names of processes and threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import msgspec
import numpy as np

from pellucid.trace.link import Hints, linked
from pellucid.trace.redact import Redactor
from pellucid.trace.timeline import (
    ANNOTATION,
    GPU_ANNOTATION,
    KERNEL,
    MEMCPY,
    MEMSET,
    NOT_TOLD,
    OP,
    OVERHEAD,
    RUNTIME,
    SYNC,
    About,
    Damage,
    Longs,
    Numbered,
    Timeline,
    host_of,
    kernels_of,
)  # fmt: skip
from pellucid.trace.torch_profiler.clock import longs, times
from pellucid.trace.torch_profiler.events import NO_ARGS, NOTHING, Args, Event
from pellucid.trace.torch_profiler.flows import Flows

# Category → kind. The capital ones are those of PyTorch 1.8 to 1.10.
DEVICE_KINDS = {"kernel": KERNEL, "gpu_memcpy": MEMCPY, "gpu_memset": MEMSET, "cuda_sync": SYNC,
                "Kernel": KERNEL, "Memcpy": MEMCPY, "Memset": MEMSET}  # fmt: skip
HOST_KINDS = {"cpu_op": OP, "Operator": OP, "user_annotation": ANNOTATION, "gpu_user_annotation": GPU_ANNOTATION,
              "overhead": OVERHEAD, "Runtime": RUNTIME,
              **dict.fromkeys(("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "xpu_runtime", "xpu_driver",
                               "mtia_runtime", "privateuse1_runtime", "privateuse1_driver"), RUNTIME)}  # fmt: skip
HALVES_AND_NAMES = frozenset(("B", "M"))
HALF = "begin and end of a range stand apart: they are not joined"
NO_JSON = b"\0"         # stands between texts: in none of them is it allowed
BAD_TIME = "an event has no start, no duration or one below zero"


@dataclass(slots=True)
class Columns:
    damage: Damage
    redactor: Redactor
    names: Numbered[str] = field(default_factory=Numbered)
    texts: Numbered[bytes] = field(default_factory=Numbered)
    extents: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): NOT_TOLD})
    threads: dict[tuple[int, int], int] = field(default_factory=dict)
    thread_numbers: dict[Any, dict[Any, int]] = field(default_factory=dict)     # the same by process, then by thread
    kernels: dict[str, list[Longs]] = field(default_factory=dict)
    host: dict[str, list[Longs]] = field(default_factory=dict)
    events_count: int = 0           # of all kinds, dropped ones too
    flows: Flows | None = None      # where launches are told by arrows only

    def add(self, events: Sequence[Event]) -> None:
        """Raises NotExact before anything is kept."""
        device = [e for e in events if e.cat in DEVICE_KINDS and e.ph == "X"]
        host = [e for e in events if e.cat in HOST_KINDS and e.ph == "X"]
        start_ns, duration_ns, good = times(device + host)
        self.events_count += len(events)
        if others := [e for e in events if e.ph in HALVES_AND_NAMES]:
            self.damage.lost(HALF, sum(e.ph == "B" for e in others))
            self.redactor.dropped(sum(e.name in ("process_name", "thread_name") for e in others))
        if not good.all():
            self.damage.lost(BAD_TIME, int((~good).sum()))
            known = good.tolist()
            device, host = list(compress(device, known)), list(compress(host, known[len(device):]))
            start_ns, duration_ns = start_ns[good], duration_ns[good]
        if device or not self.kernels:      # most blocks have only one of the two
            self._add_device(device, start_ns[:len(device)], duration_ns[:len(device)])
        if host or not self.host:
            self._add_host(host, start_ns[len(device):], duration_ns[len(device):])
        if self.flows:
            self.flows.add(events)

    def _add_device(self, events: list[Event], start_ns: Longs, duration_ns: Longs) -> None:
        args = [e.args or NO_ARGS for e in events]
        extent = self.extents
        for shape in {a.grid for a in args} | {a.block for a in args}:
            extent.setdefault(shape, len(extent) - 1)
        _append(self.kernels, {
            "name": longs([self.names[e.name] for e in events]),
            "kind": longs([DEVICE_KINDS[e.cat] for e in events]),
            "start_ns": start_ns, "duration_ns": duration_ns,
            "device": longs([a.device if a.device >= 0 else e.pid for a, e in zip(args, events, strict=True)]),
            "stream": longs([a.stream if a.stream >= 0 else e.tid for a, e in zip(args, events, strict=True)]),
            "correlation": longs([a.correlation for a in args]),
            "external": longs([a.external for a in args]),
            "grid": longs([extent[a.grid] for a in args]), "block": longs([extent[a.block] for a in args]),
            "copied_bytes": longs([a.bytes for a in args]),
            "graph": longs([a.graph for a in args]), "graph_node": longs([a.graph_node for a in args]),
            "collective": longs([self._collective(a) if a.collective else NOT_TOLD for a in args]),
        })  # fmt: skip

    def _add_host(self, events: list[Event], start_ns: Longs, duration_ns: Longs) -> None:
        args = [e.args or NO_ARGS for e in events]
        _append(self.host, {
            "name": longs([self.names[e.name] for e in events]),
            "kind": longs([HOST_KINDS[e.cat] for e in events]),
            "start_ns": start_ns, "duration_ns": duration_ns,
            "thread": self._threads([e.pid for e in events], [e.tid for e in events]),
            "correlation": longs([a.correlation for a in args]),
            "external": longs([a.external for a in args]),
            "shapes": self._texts([a.shapes for a in args]),
            "types": self._texts([a.types for a in args]),
            "scalars": self._texts([a.scalars for a in args]),
        })  # fmt: skip

    def _texts(self, raws: Sequence[msgspec.Raw]) -> Longs:
        """Numbers of texts; those that are not told are empty. Made bytes all at once: faster than one by one."""
        if not [raw for raw in raws if raw is not NOTHING]:
            return np.full(len(raws), NOT_TOLD, np.int64)
        number, texts = self.texts, NO_JSON.join(raws).split(NO_JSON)
        if len(texts) != len(raws):
            texts = [bytes(raw) for raw in raws]
        return longs([number[text] if text else NOT_TOLD for text in texts])

    def _threads(self, processes: Sequence[int | str], threads: Sequence[int | str]) -> Longs:
        """Numbers of pairs. Looked up in two steps: a tuple for each event would be work for the garbage collector."""
        known = self.thread_numbers
        try:
            return longs([known[process][thread] for process, thread in zip(processes, threads, strict=True)])
        except KeyError:
            whole = longs(processes).tolist(), longs(threads).tolist()
        for process, thread in sorted(set(zip(*whole, strict=True))):
            number = self.threads.setdefault((process, thread), len(self.threads))
            known.setdefault(process, {})[thread] = number
        return longs([known[process][thread] for process, thread in zip(*whole, strict=True)])

    def _collective(self, args: Args) -> int:
        told = {"name": args.collective, "in_elements": args.in_elements, "out_elements": args.out_elements,
                "type": args.dtype or None, "ranks": args.group_ranks}  # fmt: skip
        return self.texts[msgspec.json.encode({k: None if v == NOT_TOLD else v for k, v in told.items()})]

    def kept_count(self) -> int:
        return sum(len(part) for columns in (self.kernels, self.host) for part in columns.get("name", []))

    def wants_flows(self) -> bool:
        """Whether something that ran on a device does not tell its launch."""
        return any((part == NOT_TOLD).any() for part in self.kernels.get("correlation", []))

    def timeline(self, about: Callable[[], About]) -> Timeline:
        """The columns are emptied on the way: both copies of a large trace do not fit."""
        names = self.redactor.texts(self.names)
        texts = self.redactor.texts(text.decode(errors="replace") for text in self.texts)
        self.add([])        # so that every column is there
        kernels, host = _joined(self.kernels), _joined(self.host)
        if self.flows:
            self.flows.fill(kernels, host, list(self.threads))
        hints = Hints(kernel_external=kernels.pop("external"), host_external=host.pop("external"))
        made_kernels, made_host = kernels_of(kernels), host_of(host)
        kernels.clear()
        host.clear()
        linked_kernels, linked_host = linked(made_kernels, made_host, hints)
        return Timeline(about(), linked_kernels, linked_host, names, texts,
                        tuple(_three(e) for e in self.extents if e), tuple(self.threads))  # fmt: skip


def _append(columns: dict[str, list[Longs]], block: dict[str, Longs]) -> None:
    for name, values in block.items():
        columns.setdefault(name, []).append(values)


def _joined(columns: dict[str, list[Longs]]) -> dict[str, Longs]:
    return {name: np.concatenate(columns.pop(name)) for name in list(columns)}


def _three(extent: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extent, 1, 1, 1)[:3]
    return x, y, z
