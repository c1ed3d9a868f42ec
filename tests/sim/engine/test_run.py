"""Schedules that can be worked out by hand, and what holds for all of them.

That the schedule is the engine's own is shown against the engine itself (tests/engine/test_twin.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.core.errors import AskedWrongly, Failed
from pellucid.sim.engine.request import Ask
from pellucid.sim.engine.run import Ran, run
from pellucid.sim.engine.schedule import Planned
from pellucid.sim.engine.settings import Settings

PLAIN = Settings(sequence_cap_count=4, token_budget_tokens=32, kv_blocks_count=64, block_tokens=4, context_tokens=128)
MS = 1_000_000


def even(planned: Planned) -> float:
    return MS + planned.tokens


def of(ran: Ran, ask: int) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    (served,) = [s for s in ran.served if s.ask == ask]
    return served.first_step, served.first_token_step, served.token_steps


def test_a_prompt_is_one_step_and_each_further_token_another() -> None:
    ran = run([Ask(0, 10, 5)], PLAIN, even)
    assert of(ran, 0) == (0, 0, ((0, 4),))
    assert ran.tokens.tolist() == [10, 1, 1, 1, 1]
    assert ran.ends_ns.tolist() == np.cumsum([MS + 10] + [MS + 1] * 4).tolist()
    assert ran.kv_used_blocks.tolist() == [3, 3, 3, 4, 4]       # of four tokens: 10, 11, 12, 13, 14 positions


def test_a_long_prompt_is_cut_by_the_budget_and_decodes_come_first() -> None:
    ran = run([Ask(0, 4, 8), Ask(MS, 70, 1)], PLAIN, even)
    # The first decodes beside the second's chunks of 31: 31 + 31 + 8.
    assert ran.tokens.tolist()[:4] == [4, 32, 32, 9]
    assert of(ran, 1) == (1, 3, ((3, 3),))
    assert of(ran, 0)[2] == ((0, 7),)


def test_who_comes_beyond_the_cap_waits() -> None:
    ran = run([Ask(0, 4, 3), Ask(0, 4, 3)], replace(PLAIN, sequence_cap_count=1), even)
    assert of(ran, 1)[0] == 3
    assert ran.waiting.tolist() == [1, 1, 1, 0, 0, 0]


def test_a_long_prompt_is_capped_only_beside_others() -> None:
    capped = replace(PLAIN, long_prefill_tokens=8)
    assert run([Ask(0, 20, 1)], capped, even).tokens.tolist() == [20]
    assert run([Ask(0, 20, 1), Ask(0, 20, 1)], capped, even).tokens.tolist()[0] == 16


def test_what_was_computed_once_is_found_again() -> None:
    asks = [Ask(0, 12, 1, (7, 8, 9), 4), Ask(5 * MS, 12, 1, (7, 8, 5), 4), Ask(9 * MS, 12, 1, (7, 8, 9), 4)]
    ran = run(asks, PLAIN, even)
    assert [s.cached_tokens for s in ran.served] == [0, 8, 8]      # the last token is computed again, with its block
    cold = run(asks, replace(PLAIN, prefix_caching=False), even)
    assert [s.cached_tokens for s in cold.served] == [0, 0, 0]


def test_blocks_of_another_size_are_shared_as_far_as_they_are_known() -> None:
    asks = [Ask(0, 30, 1, (1, 2, 3), 10), Ask(5 * MS, 30, 1, (1, 2, 4), 10)]
    (_, second) = run(asks, PLAIN, even).served
    assert second.cached_tokens == 20      # five blocks of four lie within the first two of ten


def test_without_room_the_last_to_come_begins_anew() -> None:
    tight = replace(PLAIN, kv_blocks_count=7, prefix_caching=False)
    ran = run([Ask(0, 8, 10), Ask(0, 8, 10)], tight, even)
    first, second = (next(s for s in ran.served if s.ask == i) for i in (0, 1))
    assert (first.preemptions_count, second.preemptions_count) == (0, 1)
    assert second.recomputed_tokens == 12      # 8 of the prompt and four answered, before the fifth was computed
    assert sum(b - a + 1 for a, b in second.token_steps) == 10
    assert len(second.token_steps) == 2
    assert ran.preemptions_count == 1


def test_who_was_put_back_finds_its_own_blocks() -> None:
    ran = run([Ask(0, 8, 10), Ask(0, 8, 10)], replace(PLAIN, kv_blocks_count=7), even)
    second = next(s for s in ran.served if s.ask == 1)
    assert second.preemptions_count == 1
    assert second.recomputed_tokens is not None and second.recomputed_tokens < 12


def test_requests_behind_a_prompt_starve_where_it_takes_the_budget() -> None:
    small = replace(PLAIN, token_budget_tokens=8, long_prefill_tokens=6, context_tokens=128)
    ran = run([Ask(0, 40, 1), Ask(0, 2, 6), Ask(0, 1, 6)], small, even)
    assert sum(b - a + 1 for s in ran.served for a, b in s.token_steps) == 13
    assert all(tokens <= 8 for tokens in ran.tokens.tolist())


def test_what_can_never_run_is_refused_with_the_reason() -> None:
    ran = run([Ask(0, 200, 1), Ask(0, 0, 1), Ask(0, 100, 20)], replace(PLAIN, kv_blocks_count=20), even)
    assert [(r.ask, r.reason.split(",")[0]) for r in ran.refused] == [
        (0, "201 tokens"), (1, "it has no prompt"), (2, "119 positions")]  # fmt: skip
    assert ran.served == ()


def test_a_turn_waits_for_the_one_before_it_and_its_user() -> None:
    ran = run([Ask(0, 4, 3), Ask(0, 4, 1, follows=0, think_ns=7 * MS)], PLAIN, even)
    first_end = ran.ends_ns[2]
    (second,) = [s for s in ran.served if s.ask == 1]
    assert second.arrived_ns == first_end + 7 * MS
    assert ran.starts_ns[second.first_step] == second.arrived_ns


def test_a_step_without_one_right_before_it_takes_longer() -> None:
    ran = run([Ask(0, 4, 2), Ask(50 * MS, 4, 2)], PLAIN, even, alone_ns=5 * MS)
    took = (ran.ends_ns - ran.starts_ns).tolist()
    assert took == [6 * MS + 4, MS + 1, 6 * MS + 4, MS + 1]


def test_a_step_that_takes_no_time_is_refused() -> None:
    with pytest.raises(Failed, match="0 ns"):
        run([Ask(0, 4, 2)], PLAIN, lambda _: 0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"sequence_cap_count": 0}, {"kv_blocks_count": 0}, {"watermark_ratio": 1.0}, {"long_prefill_tokens": -1},
     {"chunked_prefill": False}],
)  # fmt: skip
def test_settings_under_which_nothing_runs_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(AskedWrongly):
        replace(PLAIN, **wrong)     # type: ignore[arg-type]


asked = st.builds(
    Ask, st.integers(0, 60 * MS), st.integers(1, 90), st.integers(1, 30),
    st.lists(st.integers(0, 3), max_size=8).map(tuple), st.just(8),
)  # fmt: skip
settings = st.builds(
    Settings, st.integers(1, 6), st.integers(1, 64), st.integers(32, 80), st.just(4), st.just(128), st.booleans(),
    st.just(True), st.sampled_from([0, 5, 16]), st.booleans(), st.sampled_from([0.0, 0.1]),
)  # fmt: skip


@given(st.lists(asked, max_size=14), settings)
def test_everybody_is_served_in_full_within_all_limits(asks: list[Ask], settings: Settings) -> None:
    ran = run(asks, settings, even)
    assert sorted([*(s.ask for s in ran.served), *(r.ask for r in ran.refused)]) == list(range(len(asks)))
    for served in ran.served:
        steps = [k for a, b in served.token_steps for k in range(a, b + 1)]
        assert len(steps) == len(set(steps)) == asks[served.ask].output_tokens
        assert steps == sorted(steps)
        assert steps[0] == served.first_token_step >= served.first_step
        assert ran.starts_ns[served.first_step] >= served.arrived_ns
    assert (ran.tokens <= settings.token_budget_tokens).all()
    assert (ran.running <= settings.sequence_cap_count).all()
    assert (ran.kv_used_blocks <= settings.kv_blocks_count).all()
    assert (ran.starts_ns[1:] >= ran.ends_ns[:-1]).all()
    computed = sum(asks[s.ask].prompt_tokens + asks[s.ask].output_tokens - 1 - s.cached_tokens for s in ran.served)
    if not ran.preemptions_count:
        assert int(ran.tokens.sum()) == computed


def test_planned_ahead_who_comes_during_a_step_is_in_the_one_after_the_next() -> None:
    asks = [Ask(0, 4, 6), Ask(MS // 2, 4, 1)]
    assert of(run(asks, PLAIN, even), 1)[0] == 1
    ahead = replace(PLAIN, planned_ahead=True)
    assert of(run(asks, ahead, even), 1)[0] == 2
    assert of(run([Ask(0, 4, 2), Ask(90 * MS, 4, 1)], ahead, even), 1)[0] == 2      # an idle engine plans at once
    assert run([Ask(0, 4, 1), Ask(MS // 2, 4, 1)], ahead, even).starts_ns.tolist() == [0, MS + 4]
