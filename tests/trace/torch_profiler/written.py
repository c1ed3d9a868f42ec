"""Traces written out for a case: events as dictionaries → a file as the profiler writes it, or as it was damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.trace.timeline import Timeline
from pellucid.trace.torch_profiler.read import read

HEAD = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0,
                                                  "numSms": 132, "totalGlobalMem": 150109880320}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}}  # fmt: skip
TAIL = {"displayTimeUnit": "ms", "baseTimeNanoseconds": 1790857026000000000, "traceName": "/home/ada/x.json"}
Event = dict[str, Any]


def kernel(name: str = "k", ts: float = 10, dur: float = 2, **args: Any) -> Event:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur,
            "args": {"device": 0, "stream": 7, "correlation": 1, "grid": [4, 2, 1], "block": [128, 1, 1],
                     **args}}  # fmt: skip


def call(name: str = "cudaLaunchKernel", ts: float = 5, dur: float = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 90, "tid": 91, "ts": ts, "dur": dur,
            "args": {"correlation": 1, **args}}  # fmt: skip


def op(name: str = "aten::mm", ts: float = 4, dur: float = 4, **args: Any) -> Event:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 90, "tid": 91, "ts": ts, "dur": dur, "args": args}


def text(events: Sequence[Event | str], head: dict[str, Any] = HEAD, tail: dict[str, Any] = TAIL) -> str:
    """A trace; an event that is a text stands in it as it is."""
    listed = ",\n".join(e if isinstance(e, str) else json.dumps(e) for e in events)
    before = json.dumps(head)[:-1] + (", " if head else "")
    after = ", " + json.dumps(tail)[1:] if tail else "}"
    return f'{before}"traceEvents": [\n{listed}\n]{after}'


def loaded(folder: Path, content: str | bytes, name: str = "t.json") -> Timeline:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(path)


def ran(timeline: Timeline) -> list[str]:
    """Names of what ran on the device, in order."""
    return [timeline.names[n] for n in timeline.kernels.name]
