from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.collect.client.ask import Arrival, Ask, Fault, Reply
from pellucid.collect.client.measures import client_bound, faults, lag_limit_ns, latencies, measure, seen
from pellucid.collect.client.play import Played
from pellucid.core.units import MS_NS, S_NS

ASK = Ask(0, [1], 4)


def reply(sent_ms: int = 0, ttft_ms: int = 100, gaps_ms: tuple[int, ...] = (10, 10, 40), lag_ms: float = 0) -> Reply:
    times = [(sent_ms + ttft_ms) * MS_NS]
    for gap in gaps_ms:
        times.append(times[-1] + gap * MS_NS)
    arrivals = tuple(Arrival(t, n + 1) for n, t in enumerate(times))
    return Reply(ASK, int(lag_ms * MS_NS), sent_ms * MS_NS, times[-1] + MS_NS, 200, "id", arrivals, 1, len(times),
                 "length", False)  # fmt: skip


def failed(fault: Fault = "busy", error: str = "full") -> Reply:
    return replace(reply(), arrivals=(), output_tokens=None, status=503, fault=fault, error=error)


def played(*replies: Reply, busy_ratio: float = 0.1) -> Played:
    return Played(replies, 0, "", 0, max(r.end_ns for r in replies), (MS_NS,), busy_ratio)


def test_one_request_by_hand() -> None:
    own = seen(reply())
    assert (own.ttft_ns, own.e2e_ns, own.tpot_ns) == (100 * MS_NS, 161 * MS_NS, 20 * MS_NS)
    assert own.gaps_ns == (10 * MS_NS, 10 * MS_NS, 40 * MS_NS)


def test_tokens_that_came_together_are_one_arrival_and_count_in_the_mean() -> None:
    together = replace(reply(gaps_ms=(30,)), output_tokens=4)
    assert (seen(together).gaps_ns, seen(together).tpot_ns) == ((30 * MS_NS,), 10 * MS_NS)


def test_one_token_has_no_time_per_token() -> None:
    own = seen(reply(gaps_ms=()))
    assert (own.gaps_ns, own.tpot_ns, own.ttft_ns) == ((), None, 100 * MS_NS)


def test_a_block_by_hand() -> None:
    found = measure([reply(), reply(500, 300), failed()], 2 * S_NS)
    assert (found.requests_count, found.errors_count, found.good_count) == (3, 1, None)
    assert (found.output_tokens_per_s, found.tpot_mean_ns) == (4.0, 20 * MS_NS)
    assert found.ttft_p50_ns == 200 * MS_NS
    assert found.ttft_p95_ns == pytest.approx(290 * MS_NS)


def test_a_block_without_an_answer_has_counts_only() -> None:
    found = measure([failed(), failed()], S_NS)
    assert (found.requests_count, found.errors_count) == (2, 2)
    assert (found.output_tokens_per_s, found.tpot_mean_ns, found.ttft_p50_ns, found.itl_p95_ns, found.e2e_p95_ns) == (
        (None,) * 5
    )  # fmt: skip


def test_a_count_that_nobody_saw_makes_throughput_unknown() -> None:
    assert measure([reply(), replace(reply(), output_tokens=None)], S_NS).output_tokens_per_s is None


def test_good_ones_are_those_that_are_surely_good() -> None:
    replies = [reply(), reply(ttft_ms=300), failed(), replace(reply(), arrivals=())]
    found = measure(replies, S_NS, lambda s: None if s.ttft_ns is None else s.ok and s.ttft_ns < 200 * MS_NS)
    assert found.good_count == 1


def test_faults_are_counted_by_kind_with_the_words_of_the_first() -> None:
    found = faults([failed(), reply(), failed("lost", "a"), failed("lost", "b")])
    assert list(found.items()) == [("lost", (2, "a")), ("busy", (1, "full"))]


def test_what_failed_is_in_no_latency() -> None:
    assert latencies([failed()]).ttft_ns is None
    assert latencies([failed(), reply()]) == latencies([reply()])


@given(st.lists(st.tuples(st.integers(1, 5000), st.lists(st.integers(1, 500), max_size=8)), min_size=1, max_size=20))
def test_quantiles_rise_and_lie_between_least_and_most(rows: list[tuple[int, list[int]]]) -> None:
    found = latencies([reply(ttft_ms=ttft, gaps_ms=tuple(gaps)) for ttft, gaps in rows])
    assert found.ttft_ns is not None
    assert list(found.ttft_ns) == sorted(found.ttft_ns)
    assert min(t for t, _ in rows) * MS_NS <= found.ttft_ns[0] <= found.ttft_ns[-1] <= max(t for t, _ in rows) * MS_NS


# The median TTFT is 100 ms, the gaps are 1 s, so that a tenth of them is 100 ms.
@pytest.mark.parametrize(("lag_ms", "bound"), [(99, False), (101, True)])
def test_a_lag_counts_beside_the_gaps(lag_ms: int, bound: bool) -> None:
    found = played(*(reply(1000 * n, lag_ms=lag_ms) for n in range(10)))
    assert lag_limit_ns(found) == 100 * MS_NS
    assert ("late" in client_bound(found)) is bound


def test_a_lag_counts_beside_the_time_to_the_first_token_where_that_is_longer() -> None:
    assert lag_limit_ns(played(*(reply(n, ttft_ms=2000) for n in range(10)))) == 200 * MS_NS


def test_the_grain_of_timers_is_no_lag() -> None:
    assert client_bound(played(*(reply(n, ttft_ms=1, lag_ms=4.9) for n in range(10)))) == ""


@pytest.mark.parametrize(("busy_ratio", "bound"), [(0.8, False), (0.81, True)])
def test_a_loop_that_is_always_busy_is_in_the_way(busy_ratio: float, bound: bool) -> None:
    assert bool(client_bound(played(reply(), busy_ratio=busy_ratio))) is bound


def test_no_socket_on_this_side_is_in_the_way() -> None:
    assert "Too many open files" in client_bound(played(reply(), failed("client", "OSError: Too many open files")))
