"""What a workload is like, on requests written out by hand and on streams whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid.workload.read_any import read_any
from pellucid.workload.rows import Request, Rows
from pellucid.workload.servegen import Draw
from pellucid.workload.statistics import Arrivals, Statistics, arrivals, statistics
from tests.conftest import shared_data
from tests.workload.trace_files import KEY

S = 1_000_000_000


def of(*requests: Request) -> Statistics:
    rows = Rows()
    for request in requests:
        rows.add(request)
    return statistics(rows.workload("by hand", "test"))


def poisson(step_ns: int, rate_per_s: float = 5, count: int = 20_000) -> Arrivals:
    """Seen by a clock of such steps."""
    gaps = np.random.Generator(np.random.PCG64(1)).exponential(S / rate_per_s, count)
    found = arrivals(np.cumsum(gaps).astype(np.int64) // step_ns * step_ns)
    assert found
    return found


def test_lengths_are_summed_up_by_values_that_occur() -> None:
    found = of(*(Request(n, None if n > 4 else n * 10) for n in range(1, 11)))
    assert found.prompt and found.output
    assert (found.prompt.seen_count, found.prompt.sum_tokens, found.prompt.mean_tokens) == (10, 55, 5.5)
    assert (found.prompt.quantiles_tokens, found.prompt.largest_tokens) == ((1, 5, 9, 10), 10)
    assert (found.output.seen_count, found.output.quantiles_tokens) == (4, (10, 20, 40, 40))


def test_what_nobody_saw_is_none() -> None:
    found = of(Request(5))
    assert (found.output, found.arrivals, found.sharing, found.sessions_count, found.think_ns) == (None,) * 5
    assert (found.tasks, found.tasks_count) == (((None, 1),), 0)


def test_a_poisson_stream_varies_as_much_as_its_mean() -> None:
    found = poisson(step_ns=1)
    assert found.gap_cv == pytest.approx(1, abs=0.03)
    assert found.dispersion == pytest.approx(1, abs=0.1)
    assert found.rate_per_s == pytest.approx(5, rel=0.03)
    assert found.gap_blind == ""


def test_a_regular_stream_does_not_vary() -> None:
    found = arrivals(np.arange(1000, dtype=np.int64) * S)
    assert found
    assert (found.gap_cv, found.dispersion, found.rate_per_s) == (0, 0, 1)


def test_a_coarse_clock_blinds_gaps_and_leaves_counts() -> None:
    found = poisson(step_ns=3 * S)
    assert found.gap_cv is None
    assert "others come 3.0 s or more after it" in found.gap_blind
    assert found.window_ns == 30 * S
    assert found.dispersion == pytest.approx(1, abs=0.15)


def test_a_clock_that_is_fine_enough_blinds_nothing() -> None:
    assert poisson(step_ns=S // 1000).gap_cv == pytest.approx(1, abs=0.03)


def test_requests_that_come_together_by_a_fine_clock_are_a_burst() -> None:
    times = np.repeat(np.cumsum(np.random.Generator(np.random.PCG64(2)).exponential(S, 2000)).astype(np.int64), 4)
    times += np.tile(np.array([0, 0, 1000, 1000]), 2000)
    found = arrivals(times)
    assert found and found.gap_cv == pytest.approx(7**0.5, rel=0.05)     # of one gap in four, exponential, others none


@pytest.mark.parametrize(
    ("times", "said"),
    [([0], "0 gaps, fewer than 20"), (list(range(20)), "19 gaps, fewer than 20"), ([5] * 50, "have the same time")],
)
def test_too_few_gaps_tell_nothing(times: list[int], said: str) -> None:
    found = arrivals(np.array(times, dtype=np.int64))
    assert found and found.gap_cv is None
    assert said in found.gap_blind
    assert (found.rate_per_s is None) == (found.span_ns == 0)


def test_leading_blocks_that_came_before_repeat_and_others_do_not() -> None:
    found = of(
        Request(40, blocks=[1, 2, 3], block_tokens=16),      # first
        Request(40, blocks=[1, 2, 4], block_tokens=16),      # two blocks: 32 tokens
        Request(40, blocks=[9, 2, 3], block_tokens=16),      # begins otherwise: none
        Request(35, blocks=[1, 2, 3], block_tokens=16),      # all of it, though the last block is only begun
        Request(50, blocks=[7], block_tokens=16),            # 34 tokens behind what is known
        Request(99),                                         # nothing known
    ).sharing
    assert found
    assert (found.seen_count, found.prompt_tokens, found.repeated_tokens, found.repeating_count) == (5, 205, 67, 2)
    assert (found.distinct_blocks_count, found.unknown_tokens) == (6, 34)


def test_a_public_trace_shares_what_counting_its_lines_gives() -> None:
    """Counted apart: by the set of ids seen so far, line by line."""
    path = shared_data("workload_traces/mooncake_fast25_conversation_trace.jsonl.gz")
    found = statistics(read_any([path], KEY, Draw()))
    assert found.sharing and found.arrivals
    assert (found.sharing.prompt_tokens, found.sharing.repeated_tokens) == (144_793_823, 54_098_411)
    assert (found.sharing.distinct_blocks_count, found.arrivals.stamps_count) == (182_790, 1180)
    assert found.arrivals.gap_cv is None


def test_tasks_and_sessions_are_counted() -> None:
    found = of(Request(1, task="chat", session="a"), Request(1, task="chat", session="a", think_ns=5),
               Request(1, task="code", session="b"), Request(1))  # fmt: skip
    assert found.tasks == (("chat", 2), (None, 1), ("code", 1))
    assert (found.tasks_count, found.sessions_count, found.turns_mean_count) == (2, 2, 1.5)
    assert found.think_ns == (5, 5, 5, 5)
