"""Rows of traces: as many as there are kernels, on the run's clock, with every sum of the trace in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.store.schema import TABLES
from pellucid.trace.load import Loaded, load
from pellucid.trace.rows.columns import Identity, table
from pellucid.trace.timeline import Timeline
from pellucid.trace.torch_profiler.read import read
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

H200 = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"
FILES = [
    H200, "torch_traces/b200_eager.json.gz", "torch_traces/hta/nccl_param_fields.json.gz",
    "torch_traces/mi300_sglang_qwen3-8b_decode.json.gz", "nsys_ncu/h100_2gpu_1s.sqlite", "nsys_ncu/healthy_1pct.sqlite",
]  # fmt: skip


def loaded(name: str) -> Loaded:
    return load(Path(shared_data(name)), Identity("c1", "worker-1", model="m"))


def rows(found: Loaded, name: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = found.tables[name].to_pylist()
    return out


@pytest.mark.parametrize("name", FILES)
def test_tables_are_those_of_the_schema_and_sums_agree(name: str) -> None:
    found = loaded(name)
    assert {n: t.schema for n, t in found.tables.items()} == {n: TABLES[n].arrow() for n in found.tables}
    (capture,) = rows(found, "captures")
    kernels = [k for k in rows(found, "kernels") if k["kind"] == "kernel"]
    assert capture["kernels_count"] == len(kernels)
    assert capture["kernels_ns"] == sum(k["duration_ns"] for k in kernels)


@pytest.mark.parametrize("name", [*FILES[:4]])
def test_a_step_has_the_kernels_that_say_so_and_its_time_is_all_told(name: str) -> None:
    found = loaded(name)
    for step in rows(found, "capture_steps"):
        mine = [k for k in rows(found, "kernels") if k["step"] == step["step"] and k["kind"] == "kernel"
                and k["device_index"] == step["device_index"]]  # fmt: skip
        assert (step["kernels_count"], step["kernels_ns"]) == (len(mine), sum(k["duration_ns"] for k in mine))
        assert step["start_ns"] == min(k["start_ns"] for k in mine)
        assert step["end_ns"] == max(k["start_ns"] + k["duration_ns"] for k in mine)
        idle = sum(step[f"idle_{cause}_ns"] for cause in ("launch", "sync", "queued", "copy", "unknown"))
        assert idle == step["end_ns"] - step["start_ns"] - step["busy_ns"] + (step["idle_before_ns"] or 0)


def test_the_clock_is_moved_and_nothing_else() -> None:
    from pellucid.trace.load import rows_of

    timeline = read(Path(shared_data(H200)))
    assert isinstance(timeline, Timeline)
    here, there = (rows_of(timeline, Identity("c", "w"), shift_ns=n) for n in (0, 10**12))
    for name in ("captures", "capture_steps", "kernels"):
        for a, b in zip(here[name].to_pylist(), there[name].to_pylist(), strict=True):
            moved = {n for n in a if a[n] != b[n]}
            assert moved <= {"start_ns", "end_ns", "host_start_ns", "host_end_ns"}
            assert all(b[n] - a[n] == 10**12 for n in moved)


CAUSES = ("launch", "sync", "queued", "copy", "unknown", "nothing")


def test_without_requests_there_was_nothing_to_do_and_without_a_record_nobody_knows() -> None:
    from pellucid.trace.load import rows_of

    timeline = read(Path(shared_data(H200)))
    alone, busy = (rows_of(timeline, Identity("c", "w"), quiet=quiet)["capture_steps"].to_pylist()
                   for quiet in (None, ()))  # fmt: skip
    assert {s["idle_nothing_ns"] for s in alone} == {None} and {s["idle_nothing_ns"] for s in busy} == {0}
    step = max(busy, key=lambda s: s["idle_before_ns"] or 0)        # as if for half of it no request had been there
    before, half = step["idle_before_ns"], step["idle_before_ns"] // 2
    quiet = [(step["start_ns"] - half + 1000, step["start_ns"] + 1000)]
    shifted = rows_of(timeline, Identity("c", "w"), shift_ns=1000, quiet=quiet)["capture_steps"].to_pylist()
    (mine,) = [s for s in shifted if s["step"] == step["step"]]
    assert 0 < mine["idle_nothing_ns"] <= half < before
    for a, b in zip(busy, shifted, strict=True):
        assert sum(a[f"idle_{c}_ns"] for c in CAUSES) == sum(b[f"idle_{c}_ns"] for c in CAUSES)


def test_counted_launches_keep_every_metric() -> None:
    found = loaded("nsys_ncu/dsocr_rtx5090/ncu/k0001_ncu.details.csv")
    assert len(rows(found, "kernel_metrics")) == 44
    (kernel,) = rows(found, "kernels")
    assert (kernel["duration_ns"], kernel["count"]) == (6750, 1)


def test_a_table_of_sums_has_no_times_of_its_own() -> None:
    found = loaded("nsys_ncu/dsocr_rtx5090/nsys_per-stage_decode_nsys_summary_cuda_gpu_kern_sum.csv")
    kernels = rows(found, "kernels")
    assert {k["start_ns"] for k in kernels} == {None}
    assert sum(k["count"] for k in kernels) == 78_016


def test_a_column_the_schema_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError, match="colour"):
        table(TABLES["kernels"], 1, {"colour": "red"})
