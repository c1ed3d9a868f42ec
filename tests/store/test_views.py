"""Views on literal rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid.core.table import rows as table
from pellucid.store.expire import Expiry, Retention
from pellucid.store.read import VIEWS, open_run
from pellucid.store.schema import TABLES
from pellucid.testing.build import build_run


def view(folder: Path, name: str, columns: str, **tables: str) -> list[tuple[Any, ...]]:
    run = open_run(build_run(folder, {n: table(text) for n, text in tables.items()}))
    return [tuple(r.values()) for r in run.rows(f"SELECT {columns} FROM {name} ORDER BY ALL")]


def test_a_run_of_steps_unfolds_into_one_share_a_step(tmp_path: Path) -> None:
    assert view(tmp_path, "step_requests", "step, request, tokens, output_tokens, phase, position", step_runs="""
        process  request  first_step  last_step  step_tokens  first_position  output_tokens  phase
        p        1        3           3          512          0               0              prefill
        p        1        4           4          88           512             1              prefill
        p        1        5           7          1            600             1              decode""") == [
        (3, 1, 512, 0, "prefill", 0), (4, 1, 88, 1, "prefill", 512),
        (5, 1, 1, 1, "decode", 600), (6, 1, 1, 1, "decode", 601), (7, 1, 1, 1, "decode", 602),
    ]  # fmt: skip


def test_an_interval_runs_from_end_to_end_and_not_over_idleness(tmp_path: Path) -> None:
    assert view(tmp_path, "step_intervals", "process, step, interval_ns, other_prefill_tokens", steps="""
        process  step  start_ns  end_ns  host_gap_ns  idle_ns  prefill_tokens  recomputed_tokens
        a        1     0         10      -            -        5               2
        a        2     12        25      2            -        0               0
        a        3     90        99      -            65       0               0
        b        1     0         50      -            -        0               -
        b        2     51        60      1            -        0               0""") == [
        ("a", 1, None, 7), ("a", 2, 15, 0), ("a", 3, None, 0), ("b", 1, None, None), ("b", 2, 10, 0),
    ]  # fmt: skip


def test_an_interval_over_a_lost_step_is_not_invented(tmp_path: Path) -> None:
    """After a gap in the records the recorder writes neither host gap nor idle time."""
    assert view(tmp_path, "step_intervals", "step, interval_ns", steps="""
        process  step  start_ns  end_ns  host_gap_ns
        a        1     0         10      -
        a        4     40        50      -""") == [(1, None), (4, None)]


def test_the_spans_of_ttft_add_up(tmp_path: Path) -> None:
    assert view(tmp_path, "request_latency", "ttft_frontend_ns, ttft_queue_ns, ttft_prefill_ns, ttft_first_sample_ns, "
                "ttft_ns, e2e_ns, itl_mean_ns", requests="""
        arrival_ns  queued_ns  scheduled_ns  first_token_ns  first_delivered_ns  last_token_ns  last_delivered_ns  output_tokens
        100         103        110           150             152                 250            260                11""") == [  # noqa: E501
        (3, 7, 40, 2, 52, 160, 10.0),
    ]  # fmt: skip


def test_a_missing_end_makes_its_spans_null_and_no_others(tmp_path: Path) -> None:
    assert view(tmp_path, "request_latency", "ttft_frontend_ns, ttft_queue_ns, ttft_ns, itl_mean_ns", requests="""
        arrival_ns  queued_ns  scheduled_ns  first_token_ns  first_delivered_ns  last_token_ns  output_tokens
        -          103        110           150             152                 150            1
        100         103        -             -               -                   -              0""") == [
        (3, None, None, None), (None, 7, None, None),
    ]  # fmt: skip


def test_every_view_opens_with_what_it_is() -> None:
    for path in VIEWS.glob("*/*.sql"):
        text = path.read_text()
        made = f"MACRO {path.stem}(edges) AS TABLE" if path.parent.name == "window" else f"VIEW {path.stem} AS"
        assert text.startswith("-- ") and made in text


def test_an_empty_run_has_every_table_and_view(tmp_path: Path) -> None:
    run = open_run(build_run(tmp_path, {}))
    for name in (*TABLES, *(p.stem for p in VIEWS.glob("*/*.sql") if p.parent.name != "window")):
        assert run.rows(f"SELECT * FROM {name}") == []


def test_a_steps_time_is_shared_by_tokens_and_adds_up(tmp_path: Path) -> None:
    got = view(tmp_path, "step_shares", "request, share_ratio, worker_share_ns, device_share_ns", steps="""
        process  step  scheduled_tokens  worker_ns
        p        3     100               5000""", step_runs="""
        process  request  first_step  last_step  step_tokens  first_position  output_tokens  phase
        p        1        3           3          75           0               0              prefill
        p        2        3           3          25           0               1              prefill""")  # fmt: skip
    assert got == [(1, 0.75, 3750.0, None), (2, 0.25, 1250.0, None)]


def test_a_process_is_shown_once_with_its_fullest_description(tmp_path: Path) -> None:
    assert view(tmp_path, "processes", "process, model, lost_count", sources="""
        process  model  config_json  anchor_mono_ns  lost_count
        a        -      {}           1               -
        a        tiny   {"x":1}      1               2
        a        tiny   {"x":1}      -               7""") == [("a", "tiny", 7)]


def test_energy_is_shared_over_the_tokens_made_while_it_was_counted(tmp_path: Path) -> None:
    assert view(tmp_path, "device_energy", "device, energy_joules, output_tokens, output_token_joules", gpu="""
        device  time_ns  energy_joules
        0 A     10       1000.0
        0 A     20       1300.0
        1 A     10       50.0
        1 A     20       150.0""", steps="""
        process  step  start_ns  end_ns  output_tokens
        p        1     0         5       900
        p        2     10        15      40
        p        3     16        20      60""") == [
        ("0 A", 300.0, 100, 4.0), ("1 A", 100.0, 100, 4.0),
    ]  # fmt: skip


def test_tokens_of_expired_steps_share_the_energy_too(tmp_path: Path) -> None:
    build_run(tmp_path, {"steps": table("""process  step  start_ns  end_ns  output_tokens
                                           p        2     10        15      40""")})
    Expiry(tmp_path, Retention(retain_bytes=1)).tick(0)
    assert view(tmp_path, "device_energy", "output_tokens, output_token_joules", gpu="""
        device  time_ns  energy_joules
        0 A     10       1000.0
        0 A     20       1300.0""", steps="""
        process  step  start_ns  end_ns  output_tokens
        p        3     16        20      60""") == [(100, 3.0)]


def test_expired_steps_are_one_row_and_none_where_none_has_expired(tmp_path: Path) -> None:
    assert view(tmp_path, "expired_load", "start_ns, end_ns, steps_count, step_mean_ns, step_max_ns, "
                "running_mean_count, waiting_time_ratio, kv_used_max_ratio, output_tokens", step_minutes="""
        process  start_ns  end_ns  steps_count  busy_ns  step_max_ns  running_requests_ns  waiting_ns  kv_used_max_blocks_count  kv_total_blocks_count  output_tokens
        a        0         90      3            60       30           120                  20          5                         10                     7
        b        10        100     1            20       20           40                   0           -                         -                      -""") == [  # noqa: E501
        (0, 100, 4, 20.0, 30, 2.0, 0.25, 0.5, 7),
    ]  # fmt: skip


def test_a_board_without_an_energy_counter_costs_nothing_known(tmp_path: Path) -> None:
    assert view(tmp_path, "device_energy", "energy_joules, output_token_joules", gpu="""
        device  time_ns  energy_joules
        0 A     10       -
        0 A     20       -""", steps="""
        process  step  start_ns  end_ns  output_tokens
        p        2     10        15      40""") == [(None, None)]
