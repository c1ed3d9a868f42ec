"""Every table and column: type, meaning, in `tables/`. Together they are the truth; the unit is in the name.

Times `*_ns` that name a moment are CLOCK_MONOTONIC ns of the engine's host; `sources` has the wall anchor.
A null is "not seen", never zero: `facts` says why and how to turn it on.
"""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, Column, Table
from pellucid.store.tables.experts import EXPERTS
from pellucid.store.tables.kernels import CAPTURE_STEPS, CAPTURES, KERNEL_METRICS, KERNELS
from pellucid.store.tables.kv import KV_ONBOARDS, KV_RESIDENCY, PREFIX_LOOKUPS
from pellucid.store.tables.logs import LOG_EVENTS
from pellucid.store.tables.machine import GPU, HOST
from pellucid.store.tables.metrics import METRICS, SAMPLES
from pellucid.store.tables.requests import REQUEST_EVENTS, REQUESTS
from pellucid.store.tables.sources import FACTS, SOURCES
from pellucid.store.tables.speculation import SPECULATION
from pellucid.store.tables.step_minutes import STEP_MINUTES
from pellucid.store.tables.steps import STEP_RUNS, STEPS

__all__ = [
    "CAPTURES", "CAPTURE_STEPS", "EXPERTS", "FACTS", "GPU", "HOST", "KERNELS", "KERNEL_METRICS", "KV_ONBOARDS",
    "KV_RESIDENCY", "LOG_EVENTS", "METRICS", "PREFIX_LOOKUPS", "PROVENANCE", "REQUESTS", "REQUEST_EVENTS", "SAMPLES",
    "SOURCES", "SPECULATION", "STEPS", "STEP_MINUTES", "STEP_RUNS", "TABLES", "Column", "Table",
]  # fmt: skip

TABLES: dict[str, Table] = {
    t.name: t for t in (
        REQUESTS, STEPS, STEP_RUNS, STEP_MINUTES, REQUEST_EVENTS, KV_RESIDENCY, KV_ONBOARDS, PREFIX_LOOKUPS,
        SPECULATION, EXPERTS, CAPTURES, CAPTURE_STEPS, KERNELS, KERNEL_METRICS, HOST, GPU, METRICS, SAMPLES, LOG_EVENTS,
        SOURCES, FACTS,
    )
}  # fmt: skip
