"""Every file of the shared traces: what it is taken for, and how much of it is read."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, PellucidError
from pellucid.trace.detect import detect, load, loader, refusal
from pellucid.trace.timeline import KINDS, KernelTable, Launches, Timeline
from tests.conftest import shared_data

# file → kernels, copies, fills and synchronisations that ran, and the sum of the kernels' time. The first three are
# what the sources of these files call kernels: 929 of the B200, 1707 of the H100 with Qwen, 1517 of its twin.
TIMELINES = {
    "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz": ((14455, 447, 512, 0), 1_054_492_643),
    "h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz": ((1674, 122, 196, 0), 557_200_181),
    "torch_traces/b200_eager.json.gz": ((768, 161, 0, 0), 10_862_916),
    "torch_traces/h100_nsfw-vit_hf.json.gz": ((154, 0, 2, 0), 1_220_926),
    "torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz": ((1465, 1, 241, 0), 45_432_698),
    "torch_traces/h100_timesformer_hf.json.gz": ((446, 2, 86, 0), 154_855_595),
    "torch_traces/mi300_normalization_layers.json.gz": ((168, 0, 5, 0), 991_996),
    "torch_traces/mi300_qwen1.5-0.5b-chat_hf.json.gz": ((1516, 1, 0, 0), 43_062_042),
    "torch_traces/mi300_sglang_qwen3-8b_decode.json.gz": ((555, 3, 0, 0), 9_765_437),
    "torch_traces/mi300_torch_compile_triton.json.gz": ((12, 0, 0, 0), 12_549_021),
    "torch_traces/mi300_vllm_decode_full_graph_execution.json.gz": ((425, 9, 0, 0), 10_674_517),
    "torch_traces/rtx2080ti_linear_kineto.json.gz": ((8716, 0, 1640, 0), 369_343_000),
    "torch_traces/v100_dlrm_kineto.tar.gz": ((246, 16, 0, 0), 4_560_000),
    "torch_traces/hta/alexnet_critical_path.json.gz": ((79, 16, 3, 41), 10_692_000),
    "torch_traces/hta/cpu_only_rank34.pt.trace.json.gz": ((0, 0, 0, 0), 0),
    "torch_traces/hta/cuda_event_sync.json.gz": ((4, 1, 0, 4), 49_000),
    "torch_traces/hta/distributed_info_missing.json.gz": ((0, 0, 0, 0), 0),
    "torch_traces/hta/nccl_param_fields.json.gz": ((2700, 960, 114, 0), 162_532_340),
    "torch_traces/hta/ns_resolution_rank0.pt.trace.json.gz": ((4350, 1600, 145, 0), 468_153_602),
    "torch_traces/hta/rank_not_found.json.gz": ((0, 0, 0, 0), 0),
    "torch_traces/hta/sampled_rank-0.json.gz": ((1154, 40, 10, 0), 606_519_000),
    "torch_traces/hta/sampled_rank-1.json.gz": ((1104, 40, 10, 0), 651_026_000),
    "torch_traces/hta/trace_compare_base.json.gz": ((6, 6, 6, 0), 432_000),
    "torch_traces/hta/trace_compare_test.json.gz": ((5, 6, 6, 0), 428_000),
    "torch_traces/hta/triton_example.json.gz": ((1, 0, 0, 0), 1_760),
    "nsys_ncu/h100_2gpu_1s.sqlite": ((3442, 904, 22, 244), 44_829_522),
    "nsys_ncu/healthy_1pct.sqlite": ((400, 0, 0, 0), 400_000_000),
    "nsys_ncu/rtx3080_mock.sqlite": ((2, 1, 0, 1), 4_129),
    "other_profiles/carvllm_torch_events_sample.csv.gz": ((237, 18, 44, 0), 236_349_280),
}
# file → format, rows, sum of their time
SUMS = {
    "nsys_ncu/dsocr_rtx5090/nsys_all-stage_nsys_summary_cuda_gpu_kern_sum.csv": ("nsys_csv", 113, 4_946_064_742),
    "nsys_ncu/dsocr_rtx5090/nsys_example_cuda_gpu_kern_sum.csv": ("nsys_csv", 128, 634_727_919),
    "nsys_ncu/dsocr_rtx5090/nsys_per-stage_decode_nsys_summary_cuda_gpu_kern_sum.csv": ("nsys_csv", 46, 179_072_697),
    "nsys_ncu/gh200_glm52/c4-mtp1-edge-kernels.csv": ("kernel_table", 185, 56_231_501),
    "nsys_ncu/gh200_glm52/dcp4-c1-agrs-kernels.csv": ("kernel_table", 236, 44_019_844),
    "other_profiles/sglang_glm52_b200_random_mid_kernel_table.tsv": ("kernel_table", 6, 0),
    "h200_vllm024/qwen3-30b-a3b_profiler_table.txt": ("kernel_table", 61, 1_061_180_219),
}
PAGES = {f"nsys_ncu/dsocr_rtx5090/ncu/k{k:04}_ncu.{page}.csv": metrics
         for k in range(1, 20, 2) for page, metrics in (("details", 44), ("metrics", 11))}  # fmt: skip
REFUSED = {
    "torch_traces/hta/execution_trace_simple_add_et.json.gz": "an execution trace of PyTorch: .* no times",
    "torch_traces/hta/memory_timeline.raw.gz": "a memory timeline of torch.profiler: .* no kernels",
    "nsys_ncu/healthy_1pct.label.json": "JSON, but no trace: it has no list traceEvents",
    "nsys_ncu/rtx3080_mock.label.json": "JSON, but no trace: it has no list traceEvents",
    "nsys_ncu/pax_fsdp4_proc0/device-metadata.parquet": "a table without executions of kernels",
    "nsys_ncu/pax_fsdp4_proc0/nvtx_gpu_proj_trace__files.parquet": "a table without executions of kernels",
    "nsys_ncu/pax_fsdp4_proc0/nvtx_gpu_proj_trace__trace.parquet": "ranges of the host projected .* names no kernels",
    "nsys_ncu/pax_fsdp4_proc0/report_nvtx_pushpop_trace.csv.xz": "NVTX ranges of the host: it has no kernels",
    "nsys_ncu/pax_fsdp4_proc0/system-metadata.parquet": "facts about the machine",
    "nsys_ncu/pax_fsdp4_proc0/thread-metadata.parquet": "a list of threads",
}
# Recordings of other things that lie in the same folder; other loaders read them.
OTHERS = ("README.md", "metrics_rate4.txt.gz", "metrics_rate12.txt.gz", "serve.log.gz", "kv_events_head.bin.gz",
          "qwen3-30b-a3b_offline.log.gz")  # fmt: skip


@pytest.mark.parametrize("name", TIMELINES)
def test_a_timeline_has_what_ran(name: str) -> None:
    found = load(shared_data(name))
    assert isinstance(found, Timeline)
    counts = tuple(found.count(kind) for kind in range(len(KINDS) - 1))
    assert (counts, sum(found.sums_ns().values())) == TIMELINES[name]
    assert found.about.damaged_count == 0


@pytest.mark.parametrize("name", SUMS)
def test_a_table_has_its_rows(name: str) -> None:
    found = load(shared_data(name))
    assert isinstance(found, KernelTable)
    total_ns = sum(row.total_ns or 0 for row in found.rows)
    assert (found.about.format, len(found.rows), total_ns) == SUMS[name]
    assert found.about.damage == ()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_metrics(name: str) -> None:
    found = load(shared_data(name))
    assert isinstance(found, Launches)
    assert [len(launch.metrics) for launch in found.launches] == [PAGES[name]]
    assert found.about.damage == ()


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_kernels_is_refused_in_words(name: str) -> None:
    with pytest.raises(AskedWrongly, match=REFUSED[name]):
        load(shared_data(name))


def test_no_shared_file_is_left_out() -> None:
    folders = ("torch_traces", "nsys_ncu", "other_profiles", "h200_vllm024")
    root = shared_data("torch_traces").parent
    there = {str(p.relative_to(root)) for folder in folders for p in (root / folder).rglob("*") if p.is_file()}
    listed = {*TIMELINES, *SUMS, *PAGES, *REFUSED, *(f"h200_vllm024/{name}" for name in OTHERS)}
    assert there == listed


@pytest.mark.parametrize("name", OTHERS)
def test_what_other_loaders_read_is_not_ours(name: str) -> None:
    with pytest.raises(AskedWrongly, match="no trace of kernels that we know"):
        detect(shared_data(f"h200_vllm024/{name}"))


@pytest.mark.parametrize(("name", "content", "said"), [
    ("r.nsys-rep", b"\1\2\3", "nsys export --type sqlite r.nsys-rep"),
    ("r.ncu-rep", b"NVR\0", "ncu --import r.ncu-rep"),
    ("x.zip", b"PK\3\4abc", "a zip archive"), ("x.zst", b"\x28\xb5\x2f\xfd", "packed with zstd"),
    ("snapshot.pickle", b"\x80\4abc", "a Python pickle, which is never loaded"), ("x", b"", "empty"),
    ("x.json", b'{"a": 1}', "no list traceEvents"), ("x.json", b'["a"]', "a list that holds no events"),
    ("x.json", b"[1, 2]", "a list that holds no events"), ("x.pb", b"\n\1", "a protocol buffer"),
])  # fmt: skip
def test_other_formats_are_told_what_to_do(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AskedWrongly, match=said.replace("(", "\\(")):
        load(tmp_path / name)


@pytest.mark.parametrize("head", [
    json.dumps({"distributedInfo": {"pg_config": ["x" * 300] * 1000}})[:256 * 1024].encode(),
    b'\n\n{"traceEvents": [', b'[ {"ph": "X"', b'\xef\xbb\xbf{"schemaVersion": 1, "deviceProperties": [',
])  # fmt: skip
def test_a_torch_trace_is_known_by_what_stands_first(head: bytes) -> None:
    found = loader(head)
    assert found and found.format == "torch_profiler"
    assert refusal(head) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "nsys_ncu/rtx3080_mock.sqlite", "nsys_ncu/healthy_1pct.sqlite", "nsys_ncu/dsocr_rtx5090/ncu/k0001_ncu.details.csv",
    "nsys_ncu/dsocr_rtx5090/nsys_per-stage_decode_nsys_summary_cuda_gpu_kern_sum.csv",
    "nsys_ncu/gh200_glm52/c4-mtp1-edge-kernels.csv", "nsys_ncu/pax_fsdp4_proc0/nvtx_gpu_proj_trace__trace.parquet",
    "nsys_ncu/pax_fsdp4_proc0/report_nvtx_pushpop_trace.csv.xz", "other_profiles/carvllm_torch_events_sample.csv.gz",
    "other_profiles/sglang_glm52_b200_random_mid_kernel_table.tsv", "h200_vllm024/qwen3-30b-a3b_profiler_table.txt",
    "torch_traces/v100_dlrm_kineto.tar.gz",
])  # fmt: skip
def test_whatever_happened_to_a_file_nothing_but_our_errors_is_raised(tmp_path: Path, name: str) -> None:
    whole, pick, path = shared_data(name).read_bytes(), random.Random(name), tmp_path / Path(name).name
    for _ in range(12):
        raw = bytearray(whole)
        for _ in range(pick.randrange(1, 40)):
            at = pick.randrange(len(raw))
            raw[at:at + pick.randrange(30)] = pick.randbytes(pick.randrange(30))
        path.write_bytes(bytes(raw[: pick.choice([len(raw), pick.randrange(len(raw))])]))
        with contextlib.suppress(PellucidError):
            load(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(AskedWrongly, match="cannot read"):
        load(Path("/nowhere/at/all.json"))
