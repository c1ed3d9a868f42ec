"""One event of a timeline, in the words of Chrome's trace events, which ui.perfetto.dev and chrome://tracing open.

    {"ph": "X", "cat": "kernel", "name": "fused_moe_kernel", "pid": 3, "tid": 7, "ts": 1204.512, "dur": 614.452,
     "cname": "rail_animation", "args": {"class": "moe_gemm", "layer": 3}}

Source: "Trace Event Format", Google (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
X a slice · C a counter · s and f the ends of an arrow · M a name. Times are microseconds, to the nanosecond.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pellucid.core.units import US_NS

Args = dict[str, Any]

# Names that chrome://tracing has colours for: catapult, tracing/base/color_scheme.html. Perfetto colours by name.
COLOURS = {
    "attention": "rail_response", "gemm": "thread_state_running", "moe_gemm": "rail_animation",
    "moe_routing": "rail_idle", "comm": "terrible", "norm": "thread_state_runnable", "rope": "light_memory_dump",
    "activation": "yellow", "quant": "olive", "kv_cache": "vsync_highlight_color", "sampling": "detailed_memory_dump",
    "spec_decode": "background_memory_dump", "ssm_linear_attn": "rail_load", "embedding": "startup",
    "elementwise": "thread_state_iowait", "reduce": "thread_state_unknown", "copy": "grey", "memset": "grey",
    "index": "thread_state_sleeping", "inductor_fused": "good", "unknown": "black",
    "prefill": "rail_load", "decode": "thread_state_running", "mixed": "rail_idle", "queue": "thread_state_iowait",
    "preempted": "terrible",
}  # fmt: skip


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    ph: str
    name: str
    pid: int
    tid: int = 0
    ts: float | None = None         # µs since the timeline began
    dur: float | None = None        # µs
    cat: str = ""
    cname: str = ""
    id: int = 0                     # of an arrow, at both its ends
    bp: str = ""                    # "e": an arrow ends in the slice around it, not in the next one
    args: Args = msgspec.field(default_factory=dict)


def us(ns: int) -> float:
    """A float has the decimal's three places exactly up to 2**53 ns, which are 104 days."""
    return ns / US_NS


def seen(row: Args, *names: str) -> Args:
    """Those of the columns that have a value: what is missing is left out, and is no 0."""
    return {name: row[name] for name in names if row[name] is not None}
