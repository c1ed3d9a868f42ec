"""Every log we have must load, and what is in it must be found. Figures were read off the files by eye."""

from __future__ import annotations

from typing import Any

import pytest

from tests.collect.logs.reading import of_file, only
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

GIB, S = 2**30, 10**9
ISSUES = "engine_logs/issue_excerpts"
GLM = "0.23.1rc1.dev1201+gd08eebad1"
PRIVATE = ("user0", "jusers", "/home", "/mnt/", "/tmp/", "192.0.2", "127.0.0.1", "0.0.0.0")
FIVE = ".".join(["0", "10", "0", "0", "1"])     # as printed by that build; one must not take it for an address
OLD = "0.1.dev10446+g2dcd12d35"
# file → engine, version, model, KV cache in tokens, sequences of the longest kind that fit, kind of attention
STARTS = {
    "engine_logs/inferencex_vllm_gptoss_tp1_c4_8k1k.log":
        ("vllm", "0.22.0", "openai/gpt-oss-120b", 886_768, 93.62, "FLASH_ATTN"),
    "engine_logs/rayserve_vllm_startup_llama70B-compile-cache.log":
        ("vllm", OLD, "meta-llama/Meta-Llama-3-70B", 468_752, 57.22, "Flash Attention"),
    "engine_logs/rayserve_vllm_startup_llama70b-base.log":
        ("vllm", OLD, "meta-llama/Meta-Llama-3-70B", 468_752, 57.22, "Flash Attention"),
    "engine_logs/sglang_minimax_disagg_1p1d_decode.log.gz":
        ("sglang", None, "minimax-m2.5-nvfp4", 911_040, None, "trtllm_mha"),
    "engine_logs/sglang_minimax_disagg_1p1d_prefill.log.gz":
        ("sglang", None, "minimax-m2.5-nvfp4", 911_040, None, "trtllm_mha"),
    "engine_logs/vllm_0.10.1_startup_debug_qwen-4b.log.gz":
        ("vllm", FIVE, "qwen-4b", 185_024, 5.65, "Flash Attention"),
    "engine_logs/vllm_0.21_kimi_k25_gb300_server.log.gz":
        ("vllm", "0.21.0", "kimi-k25-nvfp4", 3_098_848, 11.82, "FLASHINFER_MLA"),
    "engine_logs/vllm_glm52_gh200_failed-94pct-hbm-server.log.gz":
        ("vllm", GLM, "GLM-5.2-W4A16-55c92ae", 643_136, 1.61, "FLASHMLA_SPARSE"),
    "engine_logs/vllm_glm52_gh200_failed-home-quota-server.log.gz":
        ("vllm", GLM, "GLM-5.2-W4A16-55c92ae", None, None, "FLASHMLA_SPARSE"),
    "engine_logs/vllm_glm52_gh200_reserve5-server.log.gz":
        ("vllm", f"{GLM}.d20260717", "GLM-5.2-W4A16-55c92ae", 400_000, 1.0, "FLASHMLA_SPARSE"),
    "engine_logs/vllm_glm52_gh200_w4-target-server.log.gz":
        ("vllm", f"{GLM}.d20260717", "GLM-5.2-W4A16-FP8-MTP", 400_064, 1.0, "FLASHMLA_SPARSE"),
    "h200_vllm024/qwen3-30b-a3b_offline.log.gz": ("vllm", "0.24.0", "qwen3-30b-a3b", 708_336, 43.23, "FLASH_ATTN"),
    "h200_vllm024/serve.log.gz": ("vllm", "0.24.0", "qwen3-8b", 192_000, 11.72, "FLASH_ATTN"),
}  # fmt: skip
# file → the last error it has: kind, what it names. None: it ends well.
ENDS: dict[str, tuple[str, str | None] | None] = {
    "engine_logs/inferencex_vllm_gptoss_tp1_c4_8k1k.log": None,
    "engine_logs/rayserve_vllm_startup_llama70B-compile-cache.log": ("exception", "ValueError"),
    "engine_logs/rayserve_vllm_startup_llama70b-base.log": ("exception", "ValueError"),
    "engine_logs/sglang_minimax_disagg_1p1d_decode.log.gz": None,
    "engine_logs/sglang_minimax_disagg_1p1d_prefill.log.gz": None,
    "engine_logs/vllm_0.10.1_startup_debug_qwen-4b.log.gz": None,
    "engine_logs/vllm_0.21_kimi_k25_gb300_server.log.gz": None,
    "engine_logs/vllm_glm52_gh200_failed-94pct-hbm-server.log.gz": ("allocation_failed", "RuntimeError"),
    "engine_logs/vllm_glm52_gh200_failed-home-quota-server.log.gz": ("worker_died", "VllmWorker-1"),
    "engine_logs/vllm_glm52_gh200_reserve5-server.log.gz": ("allocation_failed", "RuntimeError"),
    "engine_logs/vllm_glm52_gh200_w4-target-server.log.gz": None,
    "h200_vllm024/qwen3-30b-a3b_offline.log.gz": None,
    "h200_vllm024/serve.log.gz": None,
}
# file → (kind, column, value) of its first row of that kind, and how many rows of that kind it has
FOUND: dict[str, list[tuple[str, int, str, Any]]] = {
    "engine_logs/inferencex_vllm_gptoss_tp1_c4_8k1k.log": [
        ("graphs_captured", 1, "duration_ns", 14 * S), ("initialised", 1, "compile_ns", round(15.35 * S))],
    "engine_logs/rayserve_vllm_startup_llama70b-base.log": [
        ("kv_blocks", 1, "kv_blocks_count", 29_297), ("compiled", 2, "duration_ns", round(60.79 * S)),
        ("request_refused", 1, "dp_rank", None), ("weights_downloaded", 1, "duration_ns", 196_465_363_000)],
    "engine_logs/rayserve_vllm_startup_llama70B-compile-cache.log": [("compiled", 2, "duration_ns", round(15.93 * S))],
    "engine_logs/sglang_minimax_disagg_1p1d_decode.log.gz": [
        ("decode_stats", 795, "used_tokens", 14_656), ("capacity", 1, "sequence_cap_count", 2372),
        ("kv_cache_size", 1, "kv_cache_bytes", round(2 * 53.87 * GIB)), ("http_error", 2, "subject", "404")],
    "engine_logs/sglang_minimax_disagg_1p1d_prefill.log.gz": [
        ("prefill_stats", 587, "prefill_tokens", 64), ("http_error", 3, "subject", "503")],
    "engine_logs/vllm_0.10.1_startup_debug_qwen-4b.log.gz": [
        ("graphs_captured", 2, "memory_bytes", round(0.29 * GIB)), ("kv_cache_size", 2, "kv_cache_tokens", 185_024)],
    "engine_logs/vllm_0.21_kimi_k25_gb300_server.log.gz": [
        ("stats", 252, "prefix_hit_ratio", 0.439), ("exception_ignored", 5, "subject", "FileNotFoundError")],
    "engine_logs/vllm_glm52_gh200_failed-94pct-hbm-server.log.gz": [
        ("engine_dead", 3, "subject", None), ("worker_failed", 5, "line", 186)],
    "engine_logs/vllm_glm52_gh200_failed-home-quota-server.log.gz": [
        ("disk_full", 2, "subject", "InductorError"), ("start_failed", 1, "line", 330)],
    "engine_logs/vllm_glm52_gh200_w4-target-server.log.gz": [
        ("stats", 119, "waiting_count", 4), ("shutdown", 2, "subject", None)],
    "h200_vllm024/serve.log.gz": [
        ("kv_blocks", 1, "kv_blocks_count", 12_000), ("stats", 15, "kv_usage_ratio", 0.011),
        ("open_files_limit", 1, "level", "warning"), ("kv_memory", 1, "kv_cache_bytes", round(111.84 * GIB))],
    "h200_vllm024/qwen3-30b-a3b_offline.log.gz": [("jit_compiled", 2, "subject", "_compute_slot_mapping_kernel")],
    f"{ISSUES}/dynamo_router_zero_cached_issue4249.log": [("routed", 1, "cached_blocks_count", 0)],
    f"{ISSUES}/lmcache_alloc_failed_issue485.log": [("offload_full", 2, "process", "VllmWorker-490015")],
    f"{ISSUES}/lmcache_negative_need_to_load_issue2574.log": [("offload_lookup", 1, "load_tokens", -192)],
    f"{ISSUES}/nccl_watchdog_issue5484.log": [("collective_timeout", 2, "duration_ns", 600_027_000_000)],
    f"{ISSUES}/sglang_decode_steady_issue14972.log": [("decode_stats", 4, "kv_usage_ratio", 0.94)],
    f"{ISSUES}/vllm_jit_monitor_runner_pr251.log": [
        ("jit_compiled", 3, "subject", "_causal_conv1d_fwd_kernel")],
    f"{ISSUES}/vllm_v0_preempt_recompute_pr6102.log": [("preempted", 1, "preempted_count", 1)],
    f"{ISSUES}/vllm_v0_stats_and_spec_issue7540.log": [
        ("stats", 2, "swapped_count", 0), ("speculation_total", 2, "accepted_tokens", 1735)],
}  # fmt: skip


def test_no_log_is_left_out() -> None:
    there = [p for f in ("engine_logs", ISSUES, "h200_vllm024")
             for p in shared_data(f).iterdir() if p.name.endswith((".log", ".log.gz"))]  # fmt: skip
    named = {shared_data(name) for name in (*STARTS, *FOUND)}
    assert set(there) == named and STARTS.keys() == ENDS.keys()


@pytest.mark.parametrize("name", STARTS)
def test_a_log_says_what_was_started(name: str) -> None:
    seen, rows = of_file(shared_data(name))
    kinds = ("kv_cache_size", "max_concurrency", "attention_backend")
    first = {kind: next(iter(only(rows, kind)), {}) for kind in kinds}
    found = (seen.engine, seen.version, seen.model, first["kv_cache_size"].get("kv_cache_tokens"),
             first["max_concurrency"].get("concurrency_ratio"), first["attention_backend"].get("subject"))  # fmt: skip
    assert found == STARTS[name]
    assert only(rows, "arguments") or only(rows, "engine_config")
    assert {row["engine"] for row in rows} == {seen.engine}


@pytest.mark.parametrize("name", ENDS)
def test_a_log_says_how_it_ended(name: str) -> None:
    _, rows = of_file(shared_data(name))
    errors = [row for row in rows if row["level"] in ("error", "critical")]
    assert ENDS[name] == ((errors[-1]["kind"], errors[-1]["subject"]) if errors else None)


@pytest.mark.parametrize("name", FOUND)
def test_a_log_has_what_was_read_off_it(name: str) -> None:
    _, rows = of_file(shared_data(name))
    for kind, count, column, value in FOUND[name]:
        of_kind = only(rows, kind)
        assert (len(of_kind), of_kind[0][column]) == (count, value), kind


@pytest.mark.parametrize("name", [*STARTS, *FOUND])
def test_no_path_address_or_name_is_left(name: str) -> None:
    _, rows = of_file(shared_data(name))
    for row in rows:
        text = f"{row['message']} {row['arguments_json']} {row['subject']}"
        assert [word for word in PRIVATE if word in text] == [], text
        assert len(row["message"]) <= 300


def test_times_go_forward_within_a_process() -> None:
    _, rows = of_file(shared_data("h200_vllm024/serve.log.gz"))
    times = [row["time_ns"] for row in rows if row["process"] == "EngineCore-1184" and row["time_ns"]]
    assert times == sorted(times) and len(times) == 12
    assert {row["time_basis"] for row in rows if row["time_ns"]} == {"file"}
