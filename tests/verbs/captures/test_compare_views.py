"""The views that a comparison reads, on rows written out by hand."""

from __future__ import annotations

from pathlib import Path

from pellucid.core.table import rows as table
from pellucid.store.read import open_run
from pellucid.testing.build import build_run

STEPS = table("""process  capture  step  device_index  phase   start_ns
                 w        c        1     0             decode  0
                 w        c        2     0             decode  10""")
KERNELS = table("""process  capture  step  device_index  layer  phase   kind    class  name  start_ns  duration_ns  count
                   w        c        1     0             0      decode  kernel  gemm   qkv   1         5            1
                   w        c        1     0             0      decode  kernel  norm   n     2         1            1
                   w        c        1     0             0      decode  kernel  gemm   out   3         7            1
                   w        c        1     0             1      decode  kernel  gemm   qkv   4         6            1
                   w        c        1     0             -      decode  memcpy  copy   m     5         2            1
                   w        c        -     0             -      -       kernel  gemm   qkv   6         9            1
                   v        c        1     0             0      decode  kernel  gemm   qkv   1         5            1
                   w        c        2     1             0      decode  kernel  gemm   qkv   9         5            1""")  # noqa: E501


def test_a_kernel_is_summed_over_its_step_and_only_where_there_is_one(tmp_path: Path) -> None:
    """Not outside of steps, not of another process, not on a device that the step did not run on."""
    run = open_run(build_run(tmp_path, {"capture_steps": STEPS, "kernels": KERNELS}))
    assert [tuple(r.values()) for r in run.rows("""
        SELECT step, phase, name, kind, class, kernels_count, duration_ns FROM kernel_step_names ORDER BY ALL""")] == [
        (1, "decode", "m", "memcpy", "copy", 1, 2), (1, "decode", "n", "kernel", "norm", 1, 1),
        (1, "decode", "out", "kernel", "gemm", 1, 7), (1, "decode", "qkv", "kernel", "gemm", 2, 11),
    ]  # fmt: skip


def test_a_place_is_the_number_of_its_class_in_the_layer(tmp_path: Path) -> None:
    run = open_run(build_run(tmp_path, {"kernels": KERNELS}))
    assert [tuple(r.values()) for r in run.rows("""
        SELECT class, name, place, kernels_count FROM kernel_places WHERE phase = 'decode' ORDER BY ALL""")] == [
        ("gemm", "out", 2, 1), ("gemm", "qkv", 1, 4), ("norm", "n", 1, 1),
    ]  # fmt: skip
    assert run.rows("SELECT name, place FROM kernel_places WHERE phase IS NULL") == [{"name": "qkv", "place": None}]
