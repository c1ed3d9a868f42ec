"""Views of experts on literal rows, and their chance against a router that is fair."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.core.table import rows as table
from pellucid.store.read import open_run
from pellucid.testing.build import build_run

HEAD = "process  task  start_ns  end_ns  layer  expert  rank  ranks_count  top_k_count  layer_tokens  expert_tokens\n"


def view(folder: Path, name: str, columns: str, *lines: str) -> list[tuple[Any, ...]]:
    run = open_run(build_run(folder, {"experts": table(HEAD + "\n".join(lines))}))
    return [tuple(r.values()) for r in run.rows(f"SELECT {columns} FROM {name} ORDER BY ALL")]


FOUR = (     # two tasks, four experts on two ranks, two choices a token
    "w  chat  10  15  0  0  0  2  2  30  30", "w  chat  10  15  0  1  0  2  2  30  20",
    "w  chat  10  15  0  2  1  2  2  30  10", "w  chat  10  15  0  3  1  2  2  30  0",
    "w  code  10  17  0  0  0  2  2  10  10", "w  code  10  17  0  1  0  2  2  10  0",
    "w  code  10  17  0  2  1  2  2  10  10", "w  code  10  17  0  3  1  2  2  10  0",
)  # fmt: skip


def test_a_layer_sums_its_tasks_and_keeps_numerators(tmp_path: Path) -> None:
    columns = ("end_ns, experts_count, layer_tokens, routed_tokens, hottest_expert, hottest_tokens, mean_tokens, "
               "ends_count, top_tokens, bottom_tokens, unused_count")  # fmt: skip
    assert view(tmp_path, "expert_layers", columns, *FOUR) == [(17, 4, 40, 80, 0, 40, 20.0, 2, 60, 20, 1)]


def test_with_many_experts_the_ends_are_ten(tmp_path: Path) -> None:
    lines = [f"w  -  10  15  0  {n}  -  1  1  231  {n}" for n in range(22)]
    columns = "ends_count, top_tokens, bottom_tokens, unused_count"
    assert view(tmp_path, "expert_layers", columns, *lines) == [(10, sum(range(12, 22)), sum(range(10)), 1)]


def test_a_rank_has_the_choices_of_its_experts(tmp_path: Path) -> None:
    columns = "layer, rank, ranks_count, experts_count, rank_tokens, mean_tokens"
    assert view(tmp_path, "expert_ranks", columns, *FOUR) == [(0, 0, 2, 2, 60, 40.0), (0, 1, 2, 2, 20, 40.0)]


def test_experts_on_no_rank_are_one_row_without_a_rank(tmp_path: Path) -> None:
    lines = ("w  -  10  15  0  0  -  1  1  9  8", "w  -  10  15  0  1  -  1  1  9  1")
    assert view(tmp_path, "expert_ranks", "rank, ranks_count, rank_tokens, mean_tokens", *lines) == [(None, 1, 9, 9.0)]


def test_a_task_is_set_beside_all_tasks(tmp_path: Path) -> None:
    columns = "task, place, expert, expert_tokens, layer_tokens, all_expert_tokens, all_layer_tokens"
    assert [r for r in view(tmp_path, "expert_tasks", columns, *FOUR) if r[1] <= 2] == [
        ("chat", 1, 0, 30, 30, 40, 40), ("chat", 2, 1, 20, 30, 20, 40),
        ("code", 1, 0, 10, 10, 40, 40), ("code", 2, 2, 10, 10, 20, 40),
    ]  # fmt: skip


def test_an_expert_of_a_window_counts_all_its_tasks(tmp_path: Path) -> None:
    columns = "expert, rank, expert_tokens, layer_tokens, mean_tokens"
    assert view(tmp_path, "expert_loads", columns, *FOUR)[:2] == [(0, 0, 40, 40, 20.0), (1, 0, 20, 40, 20.0)]


def test_drift_is_the_share_that_moved(tmp_path: Path) -> None:
    def window(start: int, *tokens: int) -> list[str]:
        return [f"w  -  {start}  {start}  0  {n}  -  1  1  {sum(tokens)}  {t}" for n, t in enumerate(tokens)]

    lines = window(10, 50, 50, 0) + window(20, 100, 100, 0) + window(30, 0, 50, 50) + window(40, 100, 0, 0)
    columns = "start_ns, previous_start_ns, routed_tokens, previous_routed_tokens, drift_ratio"
    assert view(tmp_path, "expert_drift", columns, *lines) == [
        (20, 10, 200, 100, 0.0), (30, 20, 100, 200, 0.5), (40, 30, 100, 100, 1.0),
    ]  # fmt: skip


def routed(seed: int, experts: int, top_k: int, tokens: int) -> list[int]:
    """Choices by expert of a router to which all are alike."""
    drawn = np.random.default_rng(seed).random((tokens, experts)).argpartition(-top_k, axis=1)[:, -top_k:]
    return [int(n) for n in np.bincount(drawn.ravel(), minlength=experts)]


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(16, 4, 100), (64, 6, 1000), (128, 8, 500), (128, 8, 5000)])
def test_chance_is_what_a_fair_router_shows(tmp_path: Path, experts: int, top_k: int, tokens: int) -> None:
    """A little more than a fair router's own hottest expert and its own drift: nothing fair is called skewed."""
    lines, hottest, windows = [], [], 20
    for start in range(windows):
        counts = routed(start, experts, top_k, tokens)
        hottest.append(max(counts))
        lines += [f"w  -  {start}  {start}  0  {n}  -  1  {top_k}  {tokens}  {t}" for n, t in enumerate(counts)]
    run = open_run(build_run(tmp_path, {"experts": table(HEAD + "\n".join(lines))}))
    fair = run.one("SELECT avg(fair_hottest_tokens) AS fair, avg(hottest_tokens) AS seen FROM expert_layers")
    assert math.isclose(fair["seen"], sum(hottest) / windows)
    assert 0.85 * fair["fair"] <= fair["seen"] <= fair["fair"]
    drift = run.one("SELECT avg(fair_drift_ratio) AS fair, avg(drift_ratio) AS seen FROM expert_drift")
    assert 0.85 * drift["fair"] <= drift["seen"] <= 1.05 * drift["fair"]
