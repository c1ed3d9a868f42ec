"""Rules about a device's time on other people's traces: what an engineer would agree to is found, and nothing else.

Of three things no real trace was at hand. Those tests say what they changed in a real one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.clock import monotonic_ns
from pellucid.diagnose.rank import rank
from pellucid.diagnose.rule import Rule, Verdict
from pellucid.diagnose.rules.comm.share_high import RULE as SHARE_HIGH
from pellucid.diagnose.rules.config.eager_mode import RULE as EAGER_MODE
from pellucid.diagnose.rules.kernel.elementwise_unfused import RULE as UNFUSED
from pellucid.diagnose.rules.kernel.launch_bound import RULE as LAUNCH_BOUND
from pellucid.diagnose.rules.kernel.regressed import RULE as REGRESSED
from pellucid.diagnose.rules.kernel.sampling_heavy import RULE as SAMPLING_HEAVY
from pellucid.diagnose.run import diagnose
from pellucid.store.read import open_run
from pellucid.store.schema import TABLES
from pellucid.store.write import Limits, RunWriter
from pellucid.verbs.intake.load import load
from pellucid.verbs.record import RecordInto
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

RULES = (LAUNCH_BOUND, UNFUSED, SAMPLING_HEAVY, REGRESSED, SHARE_HIGH, EAGER_MODE)
H200 = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"
H200_LOG = "h200_vllm024/qwen3-30b-a3b_offline.log.gz"
B200 = "torch_traces/b200_eager.json.gz"
QWEN = "torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz"
SGLANG = "torch_traces/mi300_sglang_qwen3-8b_decode.json.gz"
TABLES_OF_SUMS = "nsys_ncu/dsocr_rtx5090"
Row = dict[str, Any]


def run_of(home: Path, *names: str) -> Path:
    return load([shared_data(name) for name in names], RecordInto(home)).folder


def judged(rule: Rule, folder: Path) -> Verdict:
    (result,) = diagnose(open_run(folder), rules=[rule]).results
    return result.verdict


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An engine with default flags: prompts, then decode at batch 64 in device graphs; and its log."""
    return run_of(tmp_path_factory.mktemp("h200"), H200, H200_LOG)


def changed(folder: Path, into: Path, number: int, change: Callable[[str, Row], Row]) -> Path:
    """A run with so many captures in a row, each the one of `folder`, its rows changed."""
    run, writer = open_run(folder), RunWriter(into, Limits(), monotonic_ns)
    for n in range(number):
        for table in ("captures", "capture_steps", "kernels"):
            for row in run.rows(f"SELECT * FROM {table}"):
                new = row | {"capture": f"c{n}"} | ({"wall_start_ns": n} if table == "captures" else {})
                writer.append(table, tuple(change(table, new)[c] for c in TABLES[table].names()))
    writer.close()
    assert writer.lost_rows == 0
    return into


def found(folder: Path) -> list[str]:
    return [r.rule.id for r in diagnose(open_run(folder), rules=RULES).results if r.verdict.kind in ("found", "broken")]


def test_an_engine_in_good_order_has_no_finding(h200: Path) -> None:
    assert found(h200) == []


@pytest.mark.parametrize("name", [
    "h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz", SGLANG,
    "torch_traces/mi300_vllm_decode_full_graph_execution.json.gz", "nsys_ncu/healthy_1pct.sqlite",
])  # fmt: skip
def test_nor_have_others(tmp_path: Path, name: str) -> None:
    assert found(run_of(tmp_path, name)) == []


@pytest.mark.parametrize(("name", "says"), [
    (B200, "prefill: 764 kernels of 14 µs on average, and in 75% of 81 ms"),
    ("torch_traces/rtx2080ti_linear_kineto.json.gz", "8716 kernels of 42 µs on average, and in 59% of 1.0 s"),
])  # fmt: skip
def test_short_kernels_launched_one_by_one_are_launch_bound(tmp_path: Path, name: str, says: str) -> None:
    verdict = judged(LAUNCH_BOUND, run_of(tmp_path, name))
    assert (verdict.kind, says in verdict.says) == ("found", True), verdict.says


@pytest.mark.parametrize(("name", "says"), [
    ("nsys_ncu/healthy_1pct.sqlite", "in 1.0% of 404 ms"),          # a hundredth idle: nothing to recover
    ("nsys_ncu/h100_2gpu_1s.sqlite", "in 0.7% of 1.9 s"),           # idle for other reasons: 56 gaps of many ms
    (QWEN, "in 3.0% of 35 ms"),                                     # eager, and busy all the same
    (SGLANG, "run as device graphs"),
])  # fmt: skip
def test_a_busy_device_or_one_idle_for_other_reasons_is_not(tmp_path: Path, name: str, says: str) -> None:
    verdict = judged(LAUNCH_BOUND, run_of(tmp_path, name))
    assert (verdict.kind, says in verdict.says) == ("clear", True), verdict.says


@pytest.mark.parametrize(("name", "says"), [
    (QWEN, "835 of 1029 and take 63% of the time, 49% in such as follow"),
    (f"{TABLES_OF_SUMS}/nsys_per-stage_decode_nsys_summary_cuda_gpu_kern_sum.csv", "41% of the time, at least 21% in"),
])  # fmt: skip
def test_a_model_without_fusing_is_unfused(tmp_path: Path, name: str, says: str) -> None:
    verdict = judged(UNFUSED, run_of(tmp_path, name))
    assert (verdict.kind, says in verdict.says) == ("found", True), verdict.says


def test_an_engines_own_kernels_are_not(tmp_path: Path) -> None:
    verdict = judged(UNFUSED, run_of(tmp_path, SGLANG))
    assert (verdict.kind, "0.7% in such as follow" in verdict.says) == ("clear", True), verdict.says


@pytest.mark.parametrize(("name", "says"), [
    ("nsys_ncu/gh200_glm52/dcp4-c1-agrs-kernels.csv", "custom allreduce, take 40% of 44 ms of all kernels"),
    ("torch_traces/hta/sampled_rank-0.json.gz", "over 128 ranks, most of them nccl sendrecv, take 28% of 1.2 s"),
])  # fmt: skip
def test_communication_that_nothing_hides_is_found(tmp_path: Path, name: str, says: str) -> None:
    verdict = judged(SHARE_HIGH, run_of(tmp_path, name))
    assert (verdict.kind, says in verdict.says) == ("found", True), verdict.says


@pytest.mark.parametrize(("name", "kind"), [
    ("nsys_ncu/gh200_glm52/c4-mtp1-edge-kernels.csv", "clear"),         # 17 %
    (B200, "clear"),                # 20 % of the kernels, 2.7 % of a time that is mostly waiting for launches
    (QWEN, "not_applicable"),       # one device
    ("other_profiles/sglang_glm52_b200_random_mid_kernel_table.tsv", "blind"),      # shares only, and no durations
])  # fmt: skip
def test_communication_is_not_blamed_where_it_is_little_or_not_known(tmp_path: Path, name: str, kind: str) -> None:
    verdict = judged(SHARE_HIGH, run_of(tmp_path, name))
    assert verdict.kind == kind, verdict.says


def test_sampling_that_takes_a_tenth_is_found(h200: Path, tmp_path: Path) -> None:
    """Real but for one thing: softmax and draw behind the layers, 1.1 ms of 194, made 25 times as long."""

    def longer(table: str, row: Row) -> Row:
        tail = table == "kernels" and row["layer"] is None and row["class"] in ("sampling", "reduce")
        return row | {"duration_ns": row["duration_ns"] * 25} if tail else row

    verdict = judged(SAMPLING_HEAVY, changed(h200, tmp_path, 1, longer))
    assert (verdict.kind, "tokens: 13% of 20 ms of kernels" in verdict.says) == ("found", True), verdict.says


def test_a_softmax_and_a_draw_are_little(h200: Path) -> None:
    verdict = judged(SAMPLING_HEAVY, h200)
    assert (verdict.kind, "1.0% of 18 ms" in verdict.says) == ("clear", True), verdict.says


def slower(times: int, name: str) -> Callable[[str, Row], Row]:
    """In the last of five captures, kernels of that name take so many times as long."""

    def change(table: str, row: Row) -> Row:
        hit = table == "kernels" and row["capture"] == "c4" and name in row["name"]
        return row | {"duration_ns": row["duration_ns"] * times} if hit else row

    return change


@pytest.mark.parametrize(("name", "times", "kind"), [
    ("add_rmsnorm_quant_kernel", 4, "found"),
    ("add_rmsnorm_quant_kernel", 2, "clear"),
    ("paged_attention", 9, "clear"),                # contexts grow
])  # fmt: skip
def test_a_kernel_that_became_slower_is_found(tmp_path: Path, name: str, times: int, kind: str) -> None:
    """A real decode step, loaded as five captures; in the last, one kernel was made slower."""
    folder = changed(run_of(tmp_path / "real", SGLANG), tmp_path / "five", 5, slower(times, name))
    verdict = judged(REGRESSED, folder)
    assert verdict.kind == kind, verdict.says
    assert ("add_rmsnorm_quant_kernel" in verdict.says) == (name == "add_rmsnorm_quant_kernel"), verdict.says


def test_one_capture_has_no_past(h200: Path) -> None:
    assert judged(REGRESSED, h200).kind == "not_applicable"


def test_unlike_captures_are_no_past(tmp_path: Path) -> None:
    """Other models on other devices, loaded into one run."""
    names = ("mi300_qwen1.5-0.5b-chat_hf", "h100_nsfw-vit_hf", "h100_timesformer_hf", "mi300_normalization_layers")
    folder = run_of(tmp_path, SGLANG, QWEN, B200, *(f"torch_traces/{name}.json.gz" for name in names))
    assert judged(REGRESSED, folder).kind == "not_applicable"


def test_decode_steps_without_graphs_are_found_where_the_device_waits(tmp_path: Path) -> None:
    """Real but for two things: the trace's one step without graphs computes a prompt, and is said here to be three
    decode steps."""

    def decode(table: str, row: Row) -> Row:
        return row | {"phase": "decode"} if table == "capture_steps" else row

    folder = changed(run_of(tmp_path / "real", B200), tmp_path / "three", 3, decode)
    (first,) = rank(diagnose(open_run(folder), rules=[EAGER_MODE, LAUNCH_BOUND]).results)
    says = first.result.verdict.says
    assert says.startswith("3 of 3 decode steps ran without a device graph, in which the device waited for launches in")
    assert " 85% of 81 ms" in says
    assert [r.rule.id for r in first.symptoms] == ["kernel.launch_bound"]


def test_an_engine_in_graphs_is_not_in_eager_mode(h200: Path) -> None:
    """Its steps with prompts ran without graphs: they are larger than what is captured."""
    verdict = judged(EAGER_MODE, h200)
    assert (verdict.kind, verdict.says) == ("clear", "0 of 11 decode steps ran without a device graph")
