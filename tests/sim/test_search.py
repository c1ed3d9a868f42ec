from __future__ import annotations

import itertools

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.sim.engine.settings import Settings
from pellucid.sim.search import Budget, Dial, Found, Score, search

START = Settings(16, 512, kv_blocks_count=64, block_tokens=16, context_tokens=512)
CAP, TOKENS = Dial("sequence_cap_count", 1, 1024), Dial("token_budget_tokens", 16, 8192)
LONG = Dial("long_prefill_tokens", 16, 4096, off=0)


def hunted(score: object, trials_count: int = 40, seed: int = 0, limit_s: float = 60.0) -> Found:
    ticks = itertools.count()
    return search(score, START, (CAP, TOKENS, LONG), Budget(trials_count, limit_s), seed,      # type: ignore[arg-type]
                  lambda: float(next(ticks)) / 10)  # fmt: skip


def peak(settings: Settings) -> Score:
    """Best at a cap of 32 and 1,024 tokens; the third dial changes nothing."""
    off = abs(settings.sequence_cap_count - 32) / 32 + abs(settings.token_budget_tokens - 1024) / 1024
    return Score(0.0, 100 / (1 + off), 1e6 * (1 + off))


def test_a_ladder_holds_the_present_value_and_ends_at_its_limits() -> None:
    assert CAP.ladder(16) == (4, 8, 16, 32, 64)
    assert CAP.ladder(1) == (1, 2, 4)
    assert CAP.ladder(1000) == (250, 500, 1000)
    assert LONG.ladder(0) == (0, 16, 32, 64, 128, 256)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_is_found_with_a_part_of_the_grid(seed: int) -> None:
    found = hunted(peak, seed=seed)
    best = found.best(3)[0].settings
    assert (best.sequence_cap_count, best.token_budget_tokens) == (32, 1024)
    assert found.tried_count <= 40 < found.grid_count == 150


def test_of_those_alike_the_one_that_turns_fewest_is_told_once() -> None:
    best = hunted(peak).best(10)
    assert best[0].settings.long_prefill_tokens == 0
    assert len({one.alike for one in best}) == len(best)


def test_limits_come_before_what_is_wanted() -> None:
    def greedy(settings: Settings) -> Score:
        return Score(max(0.0, settings.sequence_cap_count / 16 - 1), settings.sequence_cap_count, 1.0)

    found = hunted(greedy)
    assert found.best(3) == []                       # more of it breaks the limit, less of it is less
    assert found.ranked[0].settings.sequence_cap_count == 16


def test_the_present_is_kept_where_nothing_is_better() -> None:
    found = hunted(lambda _: Score(0.0, 5.0, 1e6))
    assert found.best(3) == []
    assert found.present.settings == START


def test_it_ends_with_its_time_and_with_its_grid() -> None:
    assert hunted(peak, limit_s=0.5).tried_count < 10
    everything = search(peak, START, (CAP,), Budget(1000, 1e9), 0, lambda: 0.0)
    assert everything.tried_count == everything.grid_count == 5


def test_the_same_seed_tries_the_same() -> None:
    assert hunted(peak, seed=3) == hunted(peak, seed=3)


def test_without_a_dial_there_is_nothing_to_search() -> None:
    with pytest.raises(AskedWrongly, match="nothing to turn"):
        search(peak, START, (), Budget(10, 1.0), 0, lambda: 0.0)
