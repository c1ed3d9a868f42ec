"""The views by window, on literal rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.core.table import rows as table
from pellucid.store.read import VIEWS, open_run
from pellucid.testing.build import build_run


def windows(folder: Path, name: str, edges: list[int], columns: str, **tables: str) -> list[tuple[Any, ...]]:
    run = open_run(build_run(folder, {n: table(text) for n, text in tables.items()}))
    return [tuple(r.values()) for r in run.rows(f"SELECT {columns} FROM {name}({edges}::BIGINT[]) ORDER BY window_number")]  # noqa: E501


def test_a_window_reaches_to_the_next_ones_start_and_the_last_to_the_end_of_time(tmp_path: Path) -> None:
    assert windows(tmp_path, "window_bounds", [0, 10], "*") == [(0, 0, 10), (1, 10, 2**63 - 1)]


def test_a_step_belongs_to_the_window_it_starts_in(tmp_path: Path) -> None:
    assert windows(tmp_path, "window_steps", [0, 10, 20], "steps_count, busy_ns, output_tokens", steps="""
        start_ns  end_ns  output_tokens
        0         9       2
        9         12      3
        20        25      4""") == [(2, 12, 5), (0, None, None), (1, 5, 4)]


def test_a_sum_and_what_divides_it_leave_out_the_same_steps(tmp_path: Path) -> None:
    columns = "prefill_tokens, prefill_seen_ns, waiting_kv_request_ns, waiting_kv_seen_ns, kv_used_block_ns, kv_used_of_block_ns"  # noqa: E501
    assert windows(tmp_path, "window_steps", [0], columns, steps="""
        start_ns  end_ns  prefill_tokens  waiting_kv_count  kv_used_blocks_count  kv_total_blocks_count
        0         10      100             -                 4                     8
        10        40      -               2                 -                     8""") == [(100, 10, 60, 30, 40, 80)]


def test_only_drafts_whose_fate_is_known_count(tmp_path: Path) -> None:
    assert windows(tmp_path, "window_steps", [0], "accepted_tokens, draft_tokens, draft_request_steps_count", steps="""
        start_ns  end_ns  draft_tokens  accepted_tokens  decode_requests_count
        0         10      6             4                2
        10        20      6             -                2
        20        30      0             0                5""") == [(4, 6, 2)]


def test_gaps_are_weighed_by_who_saw_them(tmp_path: Path) -> None:
    """99 requests saw the gap of 10, one that of 30: the 99th percentile is still 10."""
    assert windows(tmp_path, "window_gaps", [0], "gaps_count, itl_p50_ns, itl_p99_ns", steps="""
        process  step  start_ns  end_ns  host_gap_ns  decode_requests_count
        a        1     0         10      -            50
        a        2     10        20      0            99
        a        3     20        50      0            1""") == [(100, 10, 10)]


def test_the_tail_begins_past_ninety_nine_in_a_hundred(tmp_path: Path) -> None:
    assert windows(tmp_path, "window_gaps", [0], "gaps_count, itl_p50_ns, itl_p99_ns", steps="""
        process  step  start_ns  end_ns  host_gap_ns  decode_requests_count
        a        1     0         10      -            50
        a        2     10        20      0            98
        a        3     20        50      0            2""") == [(100, 10, 30)]


def test_a_first_token_counts_when_it_is_delivered_and_a_prompt_when_it_is_scheduled(tmp_path: Path) -> None:
    columns = "ttft_requests_count, ttft_p50_ns, admitted_requests_count, prompt_tokens, cached_tokens, hit_requests_count"  # noqa: E501
    assert windows(tmp_path, "window_requests", [0, 100], columns, requests="""
        arrival_ns  scheduled_ns  first_delivered_ns  prompt_tokens  cached_tokens
        10          20            120                 64             16
        30          40            50                  32             0
        90          95            -                   32             -""") == [
        (1, 20, 2, 96, 16, 1), (1, 110, None, None, None, None),
    ]  # fmt: skip


def test_what_was_evicted_is_known_only_where_lives_are_recorded(tmp_path: Path) -> None:
    columns = "evicted_blocks_count, evicted_age_p50_ns, evicted_idle_p50_ns"
    assert windows(tmp_path / "a", "window_evictions", [0], columns) == [(None, None, None)]
    assert windows(tmp_path / "b", "window_evictions", [0, 100], columns, kv_residency="""
        tier    removed_reason  cached_ns  last_used_ns  removed_ns
        device  evicted         10         30            50
        device  evicted         10         60            90
        device  cleared         10         10            90
        cpu     evicted         10         10            90
        device  -               10         30            -""") == [(2, 60, 25), (0, None, None)]


def test_lookups_are_summed(tmp_path: Path) -> None:
    assert windows(tmp_path, "window_prefixes", [0], "lookups_count, evicted_tokens, lookup_prompt_tokens",
                   prefix_lookups="""
        time_ns  prompt_tokens  evicted_tokens
        10       100            32
        20       50             -""") == [(2, 32, 100)]


def test_the_busiest_engine_core_is_shown_and_no_worker(tmp_path: Path) -> None:
    columns = "core_samples_count, core_cpu_ns, core_interval_ns, core_gc_pause_ns"
    assert windows(tmp_path, "window_cores", [0], columns, sources="""
        process  role
        a        engine_core
        b        engine_core
        c        engine_core+worker
        w        worker""", host="""
        process  time_ns  interval_ns  cpu_user_ns  cpu_system_ns  gc_pause_ns
        a        10       10           2            1              5
        b        10       10           5            1              0
        b        20       10           6            1              1
        c        10       10           99           1              0
        w        10       10           99           1              0""") == [(2, 13, 20, 1)]


def test_devices_are_put_together(tmp_path: Path) -> None:
    columns = ("device_samples_count, device_utilisation_ratio, device_memory_used_bytes, device_memory_of_bytes, "
               "device_power_watts, device_energy_joules, throttled_samples_count, throttle_seen_count, "
               "device_temperature_celsius, device_xid_count")  # fmt: skip
    samples = table("""
        device  time_ns  utilisation_ratio  memory_used_bytes  memory_total_bytes  power_watts  energy_joules  throttle_reasons  temperature_celsius  xid_count
        d0      5        0.0                10                 100                 100.0        1000.0         -                 40.0                 0
        d0      10       0.5                20                 100                 300.0        1100.0         power_cap         60.0                 1
        d1      10       1.0                80                 200                 500.0        10.0           X                 50.0                 0""")  # noqa: E501
    samples[2]["throttle_reasons"] = ""
    run = open_run(build_run(tmp_path, {"gpu": samples}))
    found = run.rows(f"SELECT {columns} FROM window_devices([0, 10]::BIGINT[]) ORDER BY window_number")
    assert [tuple(r.values()) for r in found] == [
        (1, 0.0, 10, 100, 100, None, 0, 0, 40, 0), (2, 0.75, 80, 200, 400, 100, 1, 2, 60, 1),
    ]  # fmt: skip


def test_the_hottest_expert_and_the_busiest_rank_are_those_of_each_layer(tmp_path: Path) -> None:
    columns = "routed_tokens, hottest_tokens, expert_mean_tokens, busiest_rank_tokens, rank_mean_tokens"
    assert windows(tmp_path, "window_experts", [0, 100], columns, experts="""
        process  task  start_ns  layer  expert  rank  ranks_count  expert_tokens
        w        -     10        0      0       0     2            10
        w        -     20        0      0       0     2            20
        w        sql   20        0      1       1     2            10
        w        -     10        1      0       0     2            5
        w        -     10        1      1       1     2            35
        w        -     100       0      0       -     1            4
        w        -     100       0      1       -     1            4""") == [
        (80, 65, 40, 65, 40), (8, 4, 4, None, None),
    ]  # fmt: skip


def test_the_time_of_drafts_is_counted_once(tmp_path: Path) -> None:
    columns = "drafts_count, draft_output_tokens, draft_ns, draft_gap_ns"
    assert windows(tmp_path, "window_drafts", [0], columns, speculation="""
        task  start_ns  position  drafted_count  accepted_count  output_tokens  gap_ns  step_draft_ns
        a     10        1         8              6               14             1000    100
        a     10        2         8              4               -              -       -
        b     10        1         2              2               4              500     -""") == [(10, 18, 100, 1000)]


def test_pages_tell_means_increases_and_bounds_of_percentiles(tmp_path: Path) -> None:
    columns = ("pages_count, page_ns, page_running_mean_count, page_kv_used_ratio, page_output_tokens, "
               "page_ttft_count, page_ttft_p50_ns, page_ttft_p95_ns")  # fmt: skip
    assert windows(tmp_path, "window_pages", [0, 100], columns, metrics="""
        process  metric         kind     start_ns  end_ns  le   value
        a        running_count  gauge    10        20      -    4
        a        running_count  gauge    20        30      -    5
        b        running_count  gauge    20        30      -    1
        a        kv_used_ratio  gauge    20        30      -    0.5
        a        output_tokens  counter  10        20      -    100
        a        output_tokens  counter  20        30      -    50
        a        ttft_ns        count    20        30      -    10
        a        ttft_ns        bucket   20        30      40   5
        a        ttft_ns        bucket   20        30      80   9
        a        ttft_ns        bucket   20        30      inf  10
        a        running_count  gauge    100       120     -    7""") == [
        (2, 20, 5, 0.5, 150, 10, 40, None), (1, 20, 7, None, None, None, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted((VIEWS / "window").glob("*.sql")), ids=lambda p: p.stem)
def test_every_view_by_window_takes_a_run_without_rows(tmp_path: Path, path: Path) -> None:
    run = open_run(build_run(tmp_path, {}))
    assert len(run.rows(f"SELECT * FROM {path.stem}([0, 10]::BIGINT[])")) in (0, 2)
