"""Each limit, exactly on it: the side that a finding falls on is decided here, one row a test."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.diagnose.cases import case_evidence
from pellucid.diagnose.evidence import WHOLE
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Case, Row, Rule, Verdict
from tests.diagnose import limits_device_time, limits_roofs, limits_scraped

RULES = {r.id: r for r in all_rules()}

# A row on which the rule finds something; tests change one thing in it.
FOUND: dict[str, dict[str, Any]] = {
    "queue.sequence_cap_binding": {
        "busy_ns": 1000, "capped_ns": 500, "sequence_cap_count": 10, "waiting_p95_count": 5,
        "kv_used_p95_ratio": 0.3, "token_budget_tokens": 512, "request_queue_ns": 50, "request_ttft_ns": 100,
    },
    "queue.token_budget_binding": {
        "busy_ns": 1000, "full_ns": 500, "full_steps_count": 5, "waiting_max_count": 1, "token_budget_tokens": 64,
        "fixed_ns": 6400.0, "per_token_ns": 100.0,
    },
    "batch.prefill_stalling_decode": {
        "decode_gaps_count": 1000, "decode_only_p50_ns": 20e6, "stalled_gaps_count": 100, "stalled_mean_ns": 160e6,
        "stalled_max_ns": 200e6, "stalled_prefill_mean_tokens": 1400, "token_budget_tokens": 2048,
        "sequence_cap_count": 16,
    },
    "kv.preemption_storm": {
        "preempted_count": 5, "recomputed_tokens": 200, "scheduled_tokens": 1000, "kv_used_p95_ratio": 1.0,
        "kv_total_blocks_count": 100, "request_blocks_p95_count": 20, "running_max_count": 8, "demand_p95_count": 8,
        "waiting_kv_max_count": 3,
    },
    "host.engine_core_busy": {
        "steps_count": 10, "span_ns": 60e6, "steps_ns": 50e6, "schedule_ns": 15e6, "update_ns": 10e6,
        "host_gap_ns": 5e6, "handover_ns": 5e6, "worker_steps_count": 10, "worker_ns": 20e6,
    },
    "moe.rank_imbalance": {
        "layers_count": 4, "ranks_count": 2, "placed_count": 8, "busiest_tokens": 1700, "mean_tokens": 1000,
        "fair_busiest_tokens": 1040, "hottest_tokens": 200, "expert_mean_tokens": 100,
    },
    "moe.expert_skew": {
        "experts_count": 64, "ranks_count": 8, "placed_count": 64, "hottest_tokens": 400, "mean_tokens": 100,
        "fair_hottest_tokens": 130, "rank_mean_tokens": 800, "busiest_tokens": 1600,
    },
    "prefix.evicted_before_reuse": {
        "prompt_tokens": 1000, "cached_tokens": 200, "evicted_tokens": 400, "evicted_age_p50_ns": 2e9,
        "evicted_by_count": 4, "evicted_by_others_count": 3, "extra_blocks_count": 30, "kv_total_blocks_count": 100,
        "request_blocks_p95_count": 10, "running_max_count": 4, "request_prefill_ns": 50, "request_ttft_ns": 100,
    },
    "prefix.never_shareable": {
        "prompt_tokens": 1000, "cached_tokens": 200, "salt_tokens": 400, "tokenisation_tokens": 0,
        "shared_tail_tokens": 0, "block_tokens": 128, "request_prefill_ns": 50, "request_ttft_ns": 100,
    },
    "kv.too_small": {
        "busy_ns": 1000, "held_back_ns": 500, "running_p95_count": 3, "demand_p95_count": 8,
        "request_blocks_p95_count": 30, "kv_total_blocks_count": 100, "recomputed_tokens": 0, "scheduled_tokens": 1000,
        "request_queue_ns": 50, "request_ttft_ns": 100,
    },
    "data.metrics_disagree": {
        "page_finished_count": 80, "ended_count": 100, "gave_up_count": 20, "gave_up_mean_ns": 5e9,
        "page_ttft_mean_ns": 1e9, "ttft_mean_ns": 1e9, "frontends_count": 1, "frontend_finished_count": 80,
        "counter_resets_count": 0,
    },
    "kv.idle": {
        "busy_ns": 1000, "at_cap_ns": 600, "span_busy_ns": 5000, "kv_used_max_count": 10, "kv_total_blocks_count": 100,
        "kv_cache_bytes": 10 * 2**30, "context_blocks_count": 5, "cached_tokens": 0, "prompt_tokens": 1000,
    },
    "spec.not_worth_it": {
        "draft_tokens": 900, "tasks_count": 2, "task": "chat", "drafts_count": 300, "drafted_tokens": 900,
        "accepted_tokens": 90, "token_ns": 13e6, "without_ns": 10e6, "without_low_ns": 9e6, "without_high_ns": 11e6,
        "basis": "matched", "others_token_ns": None, "others_without_ns": None,
    },
    "spec.too_deep": {
        "scheduled_tokens": 1000, "draft_tokens": 900, "drafts_count": 300, "useful_tokens": 2,
        "useful_drafted_count": 300, "useful_accepted_count": 100, "beyond_drafted_tokens": 200,
        "beyond_accepted_tokens": 3,
    },
}  # fmt: skip

ON_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = [
    ("queue.sequence_cap_binding", {"capped_ns": 200}, "found"),
    ("queue.sequence_cap_binding", {"capped_ns": 199}, "clear"),
    ("queue.sequence_cap_binding", {"request_queue_ns": 10}, "found"),
    ("queue.sequence_cap_binding", {"request_queue_ns": 9}, "clear"),
    ("queue.sequence_cap_binding", {"kv_used_p95_ratio": 0.9}, "clear"),
    ("queue.sequence_cap_binding", {"kv_used_p95_ratio": 0.8}, "found"),
    ("queue.sequence_cap_binding", {"kv_used_p95_ratio": 0.0}, "found"),
    ("queue.token_budget_binding", {"full_ns": 200}, "found"),
    ("queue.token_budget_binding", {"full_ns": 199}, "clear"),
    ("queue.token_budget_binding", {"fixed_ns": 4000.0, "per_token_ns": 60.0, "token_budget_tokens": 100}, "found"),
    ("queue.token_budget_binding", {"fixed_ns": 3999.0, "per_token_ns": 60.0, "token_budget_tokens": 100}, "clear"),
    ("queue.token_budget_binding", {"per_token_ns": None}, "not_applicable"),
    ("queue.token_budget_binding", {"fixed_ns": None}, "not_applicable"),
    ("queue.token_budget_binding", {"per_token_ns": -1.0}, "found"),
    ("batch.prefill_stalling_decode", {"stalled_gaps_count": 20}, "found"),
    ("batch.prefill_stalling_decode", {"stalled_gaps_count": 19}, "clear"),
    ("batch.prefill_stalling_decode", {"decode_only_p50_ns": None}, "not_applicable"),
    ("kv.preemption_storm", {"recomputed_tokens": 50}, "found"),
    ("kv.preemption_storm", {"recomputed_tokens": 49}, "clear"),
    ("prefix.evicted_before_reuse", {"evicted_tokens": 50, "cached_tokens": 900}, "found"),
    ("prefix.evicted_before_reuse", {"evicted_tokens": 49, "cached_tokens": 900}, "clear"),
    ("prefix.evicted_before_reuse", {"request_prefill_ns": 20}, "found"),
    ("prefix.evicted_before_reuse", {"request_prefill_ns": 19}, "clear"),
    ("prefix.never_shareable", {"salt_tokens": 50, "cached_tokens": 900}, "found"),
    ("prefix.never_shareable", {"salt_tokens": 49, "cached_tokens": 900}, "clear"),
    ("prefix.never_shareable", {"request_prefill_ns": 20}, "found"),
    ("prefix.never_shareable", {"request_prefill_ns": 19}, "clear"),
    ("prefix.never_shareable", {"salt_tokens": 0, "shared_tail_tokens": 400, "block_tokens": 33}, "found"),
    ("prefix.never_shareable", {"salt_tokens": 0, "shared_tail_tokens": 400, "block_tokens": 32}, "clear"),
    ("prefix.never_shareable", {"salt_tokens": 0, "shared_tail_tokens": 400, "block_tokens": None}, "clear"),
    ("kv.too_small", {"held_back_ns": 200}, "found"),
    ("kv.too_small", {"held_back_ns": 199}, "clear"),
    ("kv.too_small", {"recomputed_tokens": 49}, "found"),
    ("kv.too_small", {"recomputed_tokens": 50}, "clear"),
    ("kv.too_small", {"request_queue_ns": 10}, "found"),
    ("kv.too_small", {"request_queue_ns": 9}, "clear"),
    ("data.metrics_disagree", {"page_finished_count": 95}, "found"),
    ("data.metrics_disagree", {"page_finished_count": 951, "ended_count": 1000}, "clear"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": 0.8e9}, "found"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": 0.81e9}, "clear"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": 1.2e9}, "found"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": 1.19e9}, "clear"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": 50e6, "ttft_mean_ns": 100e6}, "found"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": 51e6, "ttft_mean_ns": 100e6}, "clear"),
    ("data.metrics_disagree", {"page_finished_count": 100, "page_ttft_mean_ns": None}, "clear"),
    ("data.metrics_disagree", {"page_finished_count": 15, "ended_count": 20}, "found"),
    ("data.metrics_disagree", {"page_finished_count": 15, "ended_count": 19}, "not_applicable"),
    ("data.metrics_disagree", {"page_finished_count": None}, "not_applicable"),
    ("data.metrics_disagree", {"counter_resets_count": 9}, "found"),
    *(("data.metrics_disagree", {"frontends_count": 2, **change}, kind) for change, kind in (
        ({}, "clear"), ({"counter_resets_count": 9}, "not_applicable"), ({"frontend_finished_count": 84.2}, "clear"),
        ({"page_finished_count": 95, "frontend_finished_count": 95}, "clear"),
        ({"page_finished_count": 57, "frontend_finished_count": 60}, "found"))),
    ("data.metrics_disagree", {"gave_up_mean_ns": None}, "found"),
    ("kv.idle", {"at_cap_ns": 500}, "found"),
    ("kv.idle", {"at_cap_ns": 499}, "not_applicable"),
    ("kv.idle", {"at_cap_ns": 0, "span_busy_ns": 3600e9}, "found"),
    ("kv.idle", {"at_cap_ns": 0, "span_busy_ns": 3600e9 - 1}, "not_applicable"),
    ("kv.idle", {"cached_tokens": 50}, "clear"),
    ("kv.idle", {"cached_tokens": 49}, "found"),
    ("kv.idle", {"cached_tokens": None, "prompt_tokens": None}, "found"),
    ("kv.idle", {"kv_used_max_count": 50}, "clear"),
    ("kv.idle", {"kv_used_max_count": 49, "kv_cache_bytes": 100 * 2**30}, "found"),
    ("kv.idle", {"kv_cache_bytes": 2.5 * 2**30}, "found"),
    ("kv.idle", {"kv_cache_bytes": 2.5 * 2**30 - 2}, "clear"),
    ("host.engine_core_busy", {"schedule_ns": 2e6, "steps_ns": 50e6}, "found"),
    ("host.engine_core_busy", {"schedule_ns": 1.9e6, "steps_ns": 50e6}, "clear"),
    ("host.engine_core_busy", {"steps_count": 35}, "found"),
    ("host.engine_core_busy", {"steps_count": 36}, "clear"),
    ("host.engine_core_busy", {"span_ns": 45.4e6}, "not_applicable"),
    ("host.engine_core_busy", {"span_ns": 50e6, "steps_ns": 50e6 * 1.1, "schedule_ns": 20e6}, "found"),
    ("moe.rank_imbalance", {"busiest_tokens": 1500}, "found"),
    ("moe.rank_imbalance", {"busiest_tokens": 1499}, "clear"),
    ("moe.rank_imbalance", {"fair_busiest_tokens": 1250}, "found"),
    ("moe.rank_imbalance", {"fair_busiest_tokens": 1251}, "not_applicable"),
    ("moe.rank_imbalance", {"hottest_tokens": 299}, "found"),
    ("moe.rank_imbalance", {"hottest_tokens": 300}, "not_applicable"),
    ("moe.expert_skew", {"hottest_tokens": 300}, "found"),
    ("moe.expert_skew", {"hottest_tokens": 299}, "clear"),
    ("moe.expert_skew", {"busiest_tokens": 1200}, "found"),
    ("moe.expert_skew", {"busiest_tokens": 1199}, "clear"),
    ("moe.expert_skew", {"fair_hottest_tokens": 200}, "found"),
    ("moe.expert_skew", {"fair_hottest_tokens": 201}, "not_applicable"),
    ("spec.not_worth_it", {"token_ns": 10.5e6, "without_high_ns": 10e6}, "found"),
    ("spec.not_worth_it", {"token_ns": 10.49e6, "without_high_ns": 10e6}, "clear"),
    ("spec.not_worth_it", {"draft_tokens": 0}, "not_applicable"),
    ("spec.not_worth_it", {"tasks_count": 0}, "not_applicable"),
    ("spec.not_worth_it", {"tasks_count": None}, "blind"),
    ("spec.not_worth_it", {"without_high_ns": None}, "blind"),
    ("spec.too_deep", {"beyond_drafted_tokens": 100}, "found"),
    ("spec.too_deep", {"beyond_drafted_tokens": 99}, "clear"),
    ("spec.too_deep", {"drafts_count": 100}, "found"),
    ("spec.too_deep", {"drafts_count": 99}, "not_applicable"),
    ("spec.too_deep", {"drafts_count": None}, "blind"),
    ("spec.too_deep", {"useful_tokens": 0}, "clear"),
]


for part in (limits_scraped, limits_roofs, limits_device_time):
    FOUND |= part.FOUND
    ON_THE_LIMIT += part.ON_THE_LIMIT
    # So that pytest and the mutations find its tests here.
    globals().update({name: test for name, test in vars(part).items() if name.startswith("test_")})


@pytest.mark.parametrize(("rule", "change", "kind"), ON_THE_LIMIT, ids=lambda v: str(v)[:60])
def test_the_side_of_the_limit(rule: str, change: dict[str, Any], kind: str) -> None:
    assert judged(rule, **change).kind == kind


def judged(rule: str, **change: Any) -> Verdict:
    return RULES[rule].judge(Row(FOUND[rule] | change))


@pytest.mark.parametrize("rule", sorted(FOUND))
def test_the_row_has_the_columns_of_the_evidence(rule: str) -> None:
    case = next(c for c in RULES[rule].cases if c.kind == "found")
    assert set(case_evidence(RULES[rule], case).row(RULES[rule], WHOLE)) == set(FOUND[rule])


def test_the_new_cap_is_what_waited_and_no_more() -> None:
    assert judged("queue.sequence_cap_binding").targets == {"max_running_requests": 15}


def test_the_new_cap_keeps_a_tenth_of_the_kv_cache_free() -> None:
    assert judged("queue.sequence_cap_binding", kv_used_p95_ratio=0.75).targets == {"max_running_requests": 12}


def test_the_new_cap_stays_within_the_token_budget() -> None:
    assert judged("queue.sequence_cap_binding", token_budget_tokens=13).targets == {"max_running_requests": 13}


def test_half_of_those_who_wait_get_half_of_the_gain() -> None:
    gain = judged("queue.sequence_cap_binding", token_budget_tokens=11).gain
    assert gain is not None
    assert (gain.low_ratio, gain.high_ratio) == (0.05, 0.1)


def test_without_requests_the_gain_is_in_queue_time() -> None:
    gain = judged("queue.sequence_cap_binding", request_queue_ns=None, request_ttft_ns=None).gain
    assert gain is not None
    assert (gain.metric, gain.high_ratio) == ("queue_mean_ns", 1.0)


def test_the_new_budget_makes_the_fixed_part_a_quarter() -> None:
    """6400 ns fixed, 100 ns a token: a quarter at 192 tokens, and the next power of two is 256."""
    assert judged("queue.token_budget_binding").targets == {"step_token_budget": 256}


def test_the_new_budget_is_the_power_of_two_that_reaches_a_quarter() -> None:
    """3 times 8000 ns at 93.75 ns a token are 256 tokens exactly; a little more takes the next power."""
    rule = "queue.token_budget_binding"
    assert judged(rule, fixed_ns=8000.0, per_token_ns=93.75).targets == {"step_token_budget": 256}
    assert judged(rule, fixed_ns=8100.0, per_token_ns=93.75).targets == {"step_token_budget": 512}


def test_the_new_budget_is_at_least_twice_the_old_one() -> None:
    change = {"fixed_ns": 4000.0, "per_token_ns": 60.0, "token_budget_tokens": 100}
    assert judged("queue.token_budget_binding", **change).targets == {"step_token_budget": 256}


def test_the_new_budget_is_at_most_sixteen_times_the_old_one() -> None:
    assert judged("queue.token_budget_binding", per_token_ns=0.0).targets == {"step_token_budget": 1024}
    change = {"per_token_ns": 0.0, "token_budget_tokens": 80}
    assert judged("queue.token_budget_binding", **change).targets == {"step_token_budget": 2048}


def test_the_chunk_makes_a_mixed_step_three_times_a_decode() -> None:
    """1400 tokens cost 140 ms more; 40 ms more allows 400, and the power of two below is 256."""
    assert judged("batch.prefill_stalling_decode").targets == {"step_token_budget": 256, "long_prefill_threshold": 256}


def test_the_chunk_is_never_under_the_sequence_cap() -> None:
    assert judged("batch.prefill_stalling_decode", sequence_cap_count=300).targets["step_token_budget"] == 300


def test_a_budget_that_is_small_already_is_not_lowered() -> None:
    assert set(judged("batch.prefill_stalling_decode", token_budget_tokens=256).targets) == {"long_prefill_threshold"}


def test_the_chunk_is_at_least_a_block() -> None:
    assert judged("batch.prefill_stalling_decode", stalled_prefill_mean_tokens=20, sequence_cap_count=1).targets == {
        "step_token_budget": 16, "long_prefill_threshold": 16}  # fmt: skip


def test_the_stall_gain_runs_from_the_shortest_stall_to_the_mean_one() -> None:
    gain = judged("batch.prefill_stalling_decode").gain
    assert gain is not None
    assert (gain.low_ratio, gain.high_ratio) == (0.25, 0.625)


def test_a_storm_is_told_how_many_requests_fit_and_how_many_blocks_all_need() -> None:
    assert judged("kv.preemption_storm").targets == {"max_running_requests": 4, "kv_cache_memory": 169}


def test_a_storm_never_raises_the_running_requests() -> None:
    assert judged("kv.preemption_storm", running_max_count=3).targets["max_running_requests"] == 2


def test_two_requests_may_become_one_and_one_cannot_become_none() -> None:
    assert judged("kv.preemption_storm", running_max_count=2).targets["max_running_requests"] == 1
    assert "max_running_requests" not in judged("kv.preemption_storm", running_max_count=1).targets


def test_blocks_that_suffice_are_not_raised() -> None:
    targets = judged("kv.preemption_storm", request_blocks_p95_count=19, demand_p95_count=5).targets
    assert "kv_cache_memory" not in targets


def test_the_storm_gain_is_the_work_done_twice() -> None:
    gain = judged("kv.preemption_storm").gain
    assert gain is not None
    assert (gain.low_ratio, gain.high_ratio) == (0.0, 0.25)


def test_the_hosts_largest_part_is_named() -> None:
    assert "most of it update()" in judged("host.engine_core_busy", update_ns=20e6).says


def test_a_task_that_loses_is_sent_away_only_if_the_others_gain() -> None:
    rule = "spec.not_worth_it"
    assert "send this one" in judged(rule, others_token_ns=9e6, others_without_ns=9.1e6).says
    assert "send this one" not in judged(rule, others_token_ns=9e6, others_without_ns=9e6).says
    assert "send this one" not in judged(rule, others_token_ns=9e6).says


def test_what_a_task_would_gain_is_what_the_estimate_leaves_open() -> None:
    gain = judged("spec.not_worth_it", token_ns=20e6).gain
    assert gain is not None
    assert (gain.low_ratio, gain.high_ratio) == (1 - 11 / 20, 1 - 9 / 20)


def test_a_shorter_draft_saves_at_most_what_lay_beyond() -> None:
    verdict = judged("spec.too_deep")
    assert verdict.gain is not None
    assert (verdict.gain.low_ratio, verdict.gain.high_ratio) == (0.0, 0.25)
    assert verdict.targets == {"speculative_tokens": 2}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.id)
def test_a_null_that_was_not_foreseen_is_never_clear(rule: Rule) -> None:
    """With every column null the judge refuses or abstains."""
    row = Row(dict.fromkeys(FOUND[rule.id]))
    try:
        kind = rule.judge(row).kind
    except ValueError:
        return
    assert kind in ("not_applicable", "blind")


def test_a_case_with_a_column_the_rule_does_not_need_is_refused() -> None:
    rule = RULES["kv.preemption_storm"]
    with pytest.raises(ValueError, match="does not need"):
        case_evidence(rule, Case("x", "clear", {"steps": "padded_tokens\n3"}))


def test_a_larger_kv_cache_or_a_tier_holds_what_came_back() -> None:
    """30 blocks more, or three of four requests fewer, at ten blocks each."""
    assert judged("prefix.evicted_before_reuse").targets == {
        "kv_cache_memory": 130, "kv_offload_memory": 30, "max_running_requests": 1}  # fmt: skip


def test_lives_that_have_expired_leave_the_size_open() -> None:
    verdict = judged("prefix.evicted_before_reuse", extra_blocks_count=None)
    assert (verdict.kind, verdict.targets) == ("found", {})


def test_no_cap_makes_room_for_more_than_the_running_hold() -> None:
    assert "max_running_requests" not in judged("prefix.evicted_before_reuse", extra_blocks_count=31).targets


def test_half_to_all_of_the_evicted_prefill_is_claimed() -> None:
    gain = judged("prefix.evicted_before_reuse").gain
    assert gain is not None
    assert (gain.low_ratio, gain.high_ratio) == (0.125, 0.25)


def test_the_largest_reason_decides_the_move_and_a_tail_promises_nothing() -> None:
    rule = "prefix.never_shareable"
    assert judged(rule).targets == {"cache_salt_per_tenant": 1}
    assert judged(rule, tokenisation_tokens=401).targets == {"variable_part_last": 1}
    tail = judged(rule, shared_tail_tokens=401)
    assert tail.targets == {"kv_block_tokens": 32}
    assert tail.gain is not None
    assert tail.gain.low_ratio == 0
    salt = judged(rule).gain
    assert salt is not None
    assert (salt.low_ratio, salt.high_ratio) == (0.125, 0.25)


def test_the_new_cache_holds_all_who_are_there_with_a_twentieth_free() -> None:
    """Eight requests of 30 blocks are 240: 253 at 95 %."""
    verdict = judged("kv.too_small")
    assert verdict.targets == {"kv_cache_memory": 253}
    assert verdict.gain is not None
    assert (verdict.gain.low_ratio, verdict.gain.high_ratio) == (0.0, 0.5)


def test_the_idle_part_leaves_twice_what_was_used() -> None:
    verdict = judged("kv.idle")
    assert verdict.targets == {"kv_cache_limit": 20}
    assert judged("kv.idle", context_blocks_count=30).targets == {"kv_cache_limit": 30}
    assert judged("kv.idle", context_blocks_count=None).targets == {"kv_cache_limit": 20}
    assert verdict.gain is not None
    assert (verdict.gain.low_ratio, verdict.gain.high_ratio) == (0.8, 0.9)
