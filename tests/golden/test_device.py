"""Recordings of vLLM 0.24 on an H200, as `pellucid record` and `pellucid profile` made them. Random weights.

    moe-uniform   DeepSeek-V2-Lite shapes, device graphs, uniform simulated routing; decodes of 64 and 1, long prompts;
                  packaged, as example-h200
    moe-skewed    the same, routing by a normal distribution
    neighbour     Qwen3-0.6B shapes, four captures; in a fifth another program copies memory on the same device
    sampling      the same model; decodes of 64 without and with top_p and top_k
    eager         the same model without device graphs, decodes of 8 and 64; its steps and captures only
    many-experts  the experts of Qwen3-Next (512, ten a token, no tuned file) in twelve layers, decodes of 640; its
                  steps and captures only
    experts-counted   as moe-skewed, two tasks, with how many tokens each expert got
    experts-on-two    Qwen3-30B-A3B shapes on two H200s, experts shared out, routed by a normal distribution
    two-devices       Qwen3-8B shapes on two H200s, tensor parallel
    offload           Qwen3-0.6B shapes, 300 KV blocks on the device and 1 GiB of them in the host's memory
    experts-default   Mixtral's experts (8 of width 14,336, two a token) in four layers, their tuned file taken out of
                      the engine; decodes of 512 and 256, prompts of 1,024 tokens; its steps and captures only
    experts-tuned     the same with that file, decodes only

Paths of the machine were taken out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pellucid.diagnose.rank import rank
from pellucid.diagnose.rule import CLEAR, FOUND, Verdict
from pellucid.diagnose.run import diagnose
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import broken

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "device"
FINDS = {
    "moe-uniform": {"kernel.bytes_at_roof", "config.precision_unused"}, "moe-skewed": set(),
    "many-experts": {"host.engine_core_behind", "kernel.bytes_at_roof", "kernel.sampling_heavy"},
    "experts-counted": set(), "experts-on-two": set(), "two-devices": set(),
    "neighbour": {"kernel.regressed"}, "sampling": {"kernel.sampling_heavy"},
    "eager": {"config.eager_mode", "kernel.launch_bound"}, "offload": set(),
    "experts-default": {"kernel.moe_untuned", "config.precision_unused", "kernel.launch_bound"},
    "experts-tuned": {"host.engine_core_behind", "kernel.bytes_at_roof"},
}  # fmt: skip
PARTS = {"eager", "many-experts", "experts-default", "experts-tuned"}      # of which there are no requests


def golden(name: str) -> RunReader:
    return open_run(HERE / name)


@cache
def verdicts(name: str) -> dict[str, Verdict]:
    report = diagnose(golden(name))
    return {r.rule.id: r.verdict for r in report.results}


def test_each_recording_is_judged() -> None:
    assert {p.name for p in HERE.iterdir()} == set(FINDS)


@pytest.mark.parametrize("name", FINDS)
def test_exactly_what_was_made_is_found(name: str) -> None:
    assert {rule for rule, v in verdicts(name).items() if v.kind == FOUND} == FINDS[name]


@pytest.mark.parametrize("name", sorted(FINDS.keys() - PARTS))
def test_it_adds_up(name: str) -> None:
    assert broken(golden(name)) == {}


def test_experts_without_a_tuned_configuration_are_no_loss_where_their_kernel_is_at_its_roof() -> None:
    log = golden("moe-uniform").one("SELECT count(*) AS n FROM log_events WHERE kind = 'moe_untuned'")
    assert log["n"] == 1
    assert verdicts("moe-uniform")["kernel.moe_untuned"].kind == CLEAR
    says = verdicts("moe-uniform")["kernel.bytes_at_roof"].says
    assert "decode at batch 64 takes 11 ms a step" in says and "97% of what the device can" in says
    assert "nothing to gain in the kernel" in says


def test_512_experts_of_a_default_configuration_are_as_near_their_roof_as_tuned_ones() -> None:
    """640 tokens of ten experts each: tiles of 128 rows for 12.5 tokens an expert, and still the bytes decide."""
    log = golden("many-experts").one("SELECT count(*) AS n FROM log_events WHERE kind = 'moe_untuned'")
    assert log["n"] == 1
    assert verdicts("many-experts")["kernel.moe_untuned"].kind == CLEAR
    assert "86% of what the device can" in verdicts("many-experts")["kernel.bytes_at_roof"].says


EXPERTS = """
    SELECT c.batch, sum(k.duration_ns) / 20e6 AS step_ms, sum(k.roof_ns) / sum(k.duration_ns) AS near
    FROM kernels k JOIN (SELECT capture, max(decode_tokens) AS batch FROM capture_steps GROUP BY ALL) c USING (capture)
    WHERE k.detail = 'triton_fused_moe' AND c.batch > 1 GROUP BY ALL ORDER BY batch
"""


def test_experts_without_their_tuned_file_are_found_and_with_it_they_are_as_near_their_roof_as_was_said() -> None:
    """The rule knows what tuned ones reach with as many tokens: 0.85 of the roof at 256, 0.77 at 512."""
    without, tuned = (verdicts(name)["kernel.moe_untuned"] for name in ("experts-default", "experts-tuned"))
    assert "at 51% of its roof; the best configuration found on an H200 came to 68%" in without.says
    assert "E=8,N=14336,device_name=NVIDIA_H200.json is missing" in without.says
    assert tuned.kind == CLEAR
    assert "tuned for it (E=8,N=14336,device_name=NVIDIA_H200.json)" in tuned.says
    took = {name: [(r["batch"], round(r["step_ms"], 1), round(r["near"], 2)) for r in golden(name).rows(EXPERTS)]
            for name in ("experts-default", "experts-tuned")}  # fmt: skip
    assert took == {"experts-default": [(256, 3.8, 0.69), (512, 6.1, 0.44)],
                    "experts-tuned": [(256, 2.9, 0.9), (512, 3.8, 0.7)]}  # fmt: skip


BLOCK_BYTES = 16 * 28 * 8 * 2 * 128 * 2     # tokens, layers, heads, keys and values, width, of bf16


def test_blocks_in_the_hosts_memory_live_as_the_engine_counts_them() -> None:
    """Its log ends with 2,569,011,200 bytes stored and 917,504,000 loaded."""
    lives = golden("offload").one("""
        SELECT count(*) AS stored, count(*) FILTER (removed_reason IS NULL) AS kept, sum(hits_count) AS hits,
               count(removed_by) AS taken FROM kv_residency WHERE tier = 'cpu'""")
    assert lives["stored"] == lives["kept"] + lives["taken"] == 2_569_011_200 / BLOCK_BYTES
    assert lives["kept"] == (1 << 30) // BLOCK_BYTES
    assert lives["hits"] == 917_504_000 / BLOCK_BYTES == 500


def test_who_got_blocks_back_from_the_hosts_memory_is_told() -> None:
    """Ten prompts, the same again, eight others that push them out of both tiers, and the ten once more."""
    rows = golden("offload").rows("""
        SELECT task, count(o.block_hash) AS blocks, count(*) FILTER (o.age_ns >= o.idle_ns AND o.idle_ns > 0) AS aged
        FROM requests r LEFT JOIN kv_onboards o USING (process, request) GROUP BY task ORDER BY task""")
    told = {r["task"]: (r["blocks"], r["aged"]) for r in rows}
    assert told == {"first": (0, 0), "again": (500, 500), "others": (0, 0), "back": (0, 0)}
    lookups = golden("offload").rows("""
        SELECT task, sum(l.cached_tokens) AS cached, sum(evicted_tokens) AS evicted, sum(never_seen_tokens) AS fresh
        FROM prefix_lookups l JOIN requests r USING (process, request) GROUP BY task ORDER BY task""")
    assert {r["task"]: (r["cached"], r["evicted"], r["fresh"]) for r in lookups} == {
        "first": (0, 0, 7840), "again": (7990, 0, 0), "others": (0, 0, 6272), "back": (0, 7840, 0)}  # fmt: skip


def test_where_the_host_is_behind_nothing_of_a_kernel_is_promised() -> None:
    report = diagnose(golden("many-experts"))
    (first,) = rank(report.results)
    assert first.result.rule.id == "host.engine_core_behind"
    assert {s.rule.id for s in first.symptoms} == {"kernel.bytes_at_roof", "kernel.sampling_heavy"}
    assert "idle in 43% of 26 ms a step, with 640 requests" in first.result.verdict.says
    for name in ("moe-skewed", "moe-uniform", "neighbour", "sampling", "eager"):
        assert verdicts(name)["host.engine_core_behind"].kind == CLEAR


@pytest.mark.parametrize(
    ("name", "experts", "layers", "each"), [("experts-counted", 64, 26, 6), ("experts-on-two", 128, 48, 8)]
)
def test_tokens_of_each_expert_are_counted_on_a_device(name: str, experts: int, layers: int, each: int) -> None:
    seen = golden(name).one("""
        SELECT count(DISTINCT layer) AS layers, max(experts_count) AS experts, sum(layer_tokens * $each) AS chosen,
               sum(mean_tokens * experts_count) AS counted FROM expert_layers""", {"each": each})
    assert (seen["layers"], seen["experts"]) == (layers, experts)
    assert seen["counted"] == pytest.approx(seen["chosen"])


def test_two_ranks_of_experts_without_imbalance_are_near_misses() -> None:
    found = verdicts("experts-on-two")
    assert found["moe.expert_skew"].kind == found["moe.rank_imbalance"].kind == CLEAR


def test_steps_in_device_graphs_are_near_misses_of_launches_one_by_one() -> None:
    for name in ("moe-uniform", "moe-skewed", "neighbour", "sampling"):
        assert verdicts(name)["kernel.launch_bound"].kind == verdicts(name)["config.eager_mode"].kind == CLEAR


def test_steps_larger_than_the_largest_device_graph_are_told_that_size() -> None:
    found = verdicts("experts-default")["kernel.launch_bound"]
    assert "other steps run as device graphs, of up to 512 tokens, and these have 1,024" in found.says
    assert found.targets == {"largest_device_graph": 1024}


def test_sampling_without_top_p_is_a_near_miss() -> None:
    assert verdicts("neighbour")["kernel.sampling_heavy"].kind == CLEAR


@pytest.mark.parametrize("name", FINDS)
def test_they_tell_nothing_of_the_machine(name: str) -> None:
    for path in (HERE / name).iterdir():
        assert not any(word in path.read_bytes() for word in (b"/tmp/", b"/opt/", b"/root/", b"/home/"))
