"""Rules about how near kernels are to their roofs: a row on which each finds something, and what moves it over a limit."""

from __future__ import annotations

from typing import Any

FOUND: dict[str, dict[str, Any]] = {
    "kernel.bytes_at_roof": {
        "phase": "decode", "class": "moe_gemm", "batch_count": 64, "steps_count": 3, "class_ns": 250e6, "phase_ns": 1000e6,
        "roof_ns": 85e6, "roofed_ns": 100e6, "moved_bytes": 400e9, "bits_count": 16,
    },
}  # fmt: skip
ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = []
