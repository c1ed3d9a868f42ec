"""Rules about how near kernels are to their roofs: a row on which each finds something, and what moves it over limits."""

from __future__ import annotations

from typing import Any

FOUND: dict[str, dict[str, Any]] = {
    "kernel.bytes_at_roof": {
        "phase": "decode", "class": "moe_gemm", "batch_count": 64, "steps_count": 5, "class_ns": 250, "phase_ns": 1000,
        "roof_ns": 170, "roofed_ns": 200, "memory_roof_ns": 170, "moved_bytes": 400e3, "precision": "bf16",
    },
}  # fmt: skip

ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = [
    ("kernel.bytes_at_roof", {}, "found"),
    ("kernel.bytes_at_roof", {"roof_ns": 169, "memory_roof_ns": 169}, "clear"),
    ("kernel.bytes_at_roof", {"phase_ns": 1001}, "clear"),
    ("kernel.bytes_at_roof", {"steps_count": 4}, "not_applicable"),
    ("kernel.bytes_at_roof", {"roofed_ns": 125, "roof_ns": 125}, "found"),
    ("kernel.bytes_at_roof", {"roofed_ns": 124, "roof_ns": 124}, "not_applicable"),
    ("kernel.bytes_at_roof", {"memory_roof_ns": 85}, "found"),
    ("kernel.bytes_at_roof", {"memory_roof_ns": 84}, "not_applicable"),
    ("kernel.bytes_at_roof", {"precision": "int4"}, "clear"),
    ("kernel.bytes_at_roof", {"batch_count": None}, "found"),
]
