"""What a process's pages told, on literal rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid.core.table import rows as table
from pellucid.store.read import open_run
from pellucid.testing.build import build_run

HEAD = "process  engine  model  metric  kind  part  value\n"


def replicas(folder: Path, columns: str, *rows: str) -> list[tuple[Any, ...]]:
    literal = table(HEAD + "\n".join("  ".join(row.split()) for row in rows))
    told = [row | {"part": None if row["part"] is None else str(row["part"])} for row in literal]    # 429 is a name
    run = open_run(build_run(folder, {"metrics": told}))
    return [tuple(r.values()) for r in run.rows(f"SELECT {columns} FROM replicas ORDER BY ALL")]


def test_means_are_sums_over_counts_and_null_without_a_request(tmp_path: Path) -> None:
    assert replicas(tmp_path, "process, engine, model, requests_count, ttft_mean_ns, itl_mean_ns, queue_mean_ns",
                    "a e m ttft_ns sum - 90", "a e m ttft_ns count - 2", "a e m ttft_ns sum - 10",
                    "a e m ttft_ns count - 2", "a e m ttft_ns bucket - 7", "a e m itl_ns sum - 8",
                    "a e m itl_ns count - 4", "a e m queue_ns sum - 0", "a e m queue_ns count - 0",
                    "a e - gpu_busy_ratio gauge - 0.5") == [
        ("a", "e", "m", 4, 25, 2, None)]  # fmt: skip


def test_a_process_of_two_models_names_both(tmp_path: Path) -> None:
    assert replicas(tmp_path, "model", "a e n running_count gauge - 1", "a e m running_count gauge - 1") == [("m, n",)]


def test_what_failed_is_the_most_that_is_counted_and_those_without_room(tmp_path: Path) -> None:
    """Six answers of 5xx are the four failures and two refusals; two answers of 429 are others."""
    assert replicas(tmp_path, "process, requests_count, failed_count, failed_ratio",
                    "a e m http_responses_count counter 2xx 32", "a e m http_responses_count counter 5xx 6",
                    "a e m http_responses_count counter 429 2", "a e m failed_count counter - 4",
                    "a e m rejected_count counter x 2", "a e m finished_count counter stop 32",
                    "b e m finished_count counter stop 9", "b e m finished_count counter error 1",
                    "c e m http_responses_count counter 2xx 5") == [
        ("a", 40, 8, 0.2), ("b", 10, 1, 0.1), ("c", 5, 0, 0)]  # fmt: skip


def test_where_no_failure_is_counted_their_share_is_not_known(tmp_path: Path) -> None:
    assert replicas(tmp_path, "requests_count, failed_count, failed_ratio", "a e m finished_count counter stop 9") == [
        (9, None, None)]  # fmt: skip


def test_a_rate_of_hits_is_made_of_tokens_and_else_the_engines_own(tmp_path: Path) -> None:
    assert replicas(tmp_path, "process, kv_used_ratio, prefix_hit_ratio",
                    "a e m kv_used_ratio gauge - 0.2", "a e m kv_used_ratio gauge - 0.6",
                    "a e m prefix_hit_tokens counter - 30", "a e m prefix_queried_tokens counter - 40",
                    "a e m prefix_hit_ratio gauge - 0.1", "b e m prefix_hit_ratio gauge - 0.25") == [
        ("a", 0.4, 0.75), ("b", None, 0.25)]  # fmt: skip
