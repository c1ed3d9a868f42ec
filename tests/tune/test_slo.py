from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.core.errors import AskedWrongly
from pellucid.tune.slo import Goodput, Objective, Request, goodput, held, overall_ns, read_goal, read_slo, within

MS = 1_000_000
TTFT, ITL = read_slo("ttft_p95<2s,itl_p95<150ms")


def request(ttft_ms: int | None = 100, gaps_ms: tuple[int, ...] | None = (20, 30), ok: bool = True) -> Request:
    gaps = None if gaps_ms is None else tuple(g * MS for g in gaps_ms)
    e2e = None if ttft_ms is None or gaps is None else ttft_ms * MS + sum(gaps)
    return Request(ok, None if ttft_ms is None else ttft_ms * MS, e2e, gaps)


def test_limits_are_read_with_their_units() -> None:
    assert read_slo("ttft_p95<2s, itl_p99.5 < 150ms,e2el_mean<=1.5m,tpot_max>1ms") == (
        Objective("ttft", 0.95, "<", 2_000 * MS), Objective("itl", 0.995, "<", 150 * MS),
        Objective("e2e", None, "<", 90_000 * MS), Objective("tpot", 1.0, ">", MS),
    )  # fmt: skip


@pytest.mark.parametrize(("text", "says"), [
    ("", "is no limit"), ("ttft_p95", "is no limit"), ("ttft_p95<2s,", "is no limit"), ("ttft_p95=2s", "is no limit"),
    ("latency_p95<2s", "latency is not known; known are ttft, tpot, itl, e2e"),
    ("ttft<2s", "Try: ttft_p95<2s"), ("ttft_p95<2", "not a span of time"), ("ttft_p95<-2s", "not a span of time"),
    ("ttft_p95<0.0000000001s", "less than a nanosecond"), ("ttft_p0<2s", "p0"), ("ttft_p100<2s", "is no limit|known"),
    ("ttft_p95<2s,ttft_p95<1s", "twice"),
    ("ttft_p95<1s,ttft_p95>2s", "exclude each other"), ("ttft_p95>1s,ttft_p95<1s", "exclude each other"),
    ("ttft_p50>2s,ttft_p95<1s", "exclude each other"), ("ttft_mean>2s,ttft_max<1s", "exclude each other"),
    ("e2e_p95<1s,ttft_p95>2s", "exclude each other"), ("e2e_mean<1s,ttft_mean>2s", "exclude each other"),
])  # fmt: skip
def test_what_cannot_be_read_or_met_is_refused_with_the_part(text: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        read_slo(text)


@pytest.mark.parametrize("text", [
    "ttft_p95<2s,ttft_p95>1s", "ttft_p95>2s,ttft_p50<1s", "ttft_mean>2s,ttft_p95<1s", "ttft_p95<1s,e2e_p95>2s",
])  # fmt: skip
def test_limits_that_leave_room_are_no_contradiction(text: str) -> None:
    assert len(read_slo(text)) == 2


def test_a_request_is_within_by_its_own_numbers() -> None:
    slow, once = request(gaps_ms=(20,) * 9 + (400,)), request(gaps_ms=(20,) * 99 + (400,))
    asked = (request(), request(ttft_ms=2000), slow, once)
    assert [within((TTFT, ITL), r) for r in asked] == [True, False, False, True]


def test_one_token_has_no_gaps_and_a_failed_request_is_never_good() -> None:
    assert within((TTFT, ITL), request(gaps_ms=())) is True
    assert within((TTFT, ITL), request(ok=False)) is False


def test_what_was_not_seen_is_neither_good_nor_bad() -> None:
    assert within((TTFT, ITL), request(gaps_ms=None)) is None
    assert within((TTFT, ITL), request(ttft_ms=3000, gaps_ms=None)) is False
    assert within((TTFT,), request(gaps_ms=None)) is True


def test_goodput_is_good_requests_per_second() -> None:
    found = goodput((TTFT,), [request(), request(ttft_ms=2500), request(ok=False), request(ttft_ms=None)], 2.0)
    assert found == Goodput(good_count=1, judged_count=3, unseen_count=1, good_per_s=0.5)
    with pytest.raises(ValueError, match="over 0 s"):
        goodput((TTFT,), [], 0)


def test_an_objective_is_kept_by_all_requests_together() -> None:
    some = [request(ttft_ms=100)] * 10 + [request(ttft_ms=3000)] * 2
    assert [held(o, some) for o in read_slo("ttft_p50<2s,ttft_p95<2s,ttft_max>2s")] == [True, False, True]
    assert held(TTFT, [request(ok=False)]) is None
    assert (TTFT.measure, ITL.measure) == ("ttft_p95_ns", "itl_p95_ns")
    assert overall_ns(read_slo("tpot_mean<1s")[0], [request(gaps_ms=(10, 30)), request(gaps_ms=())]) == 20 * MS


def test_goodput_needs_limits_and_an_unknown_goal_is_refused() -> None:
    assert read_goal("throughput", ()) == "output_tokens_per_s"
    assert read_goal("goodput", (TTFT,)) == "goodput_per_s"
    with pytest.raises(AskedWrongly, match="needs --slo"):
        read_goal("goodput", ())
    with pytest.raises(AskedWrongly, match="known are goodput, throughput"):
        read_goal("fun", ())


limits = st.builds(Objective, st.sampled_from(["ttft", "tpot", "itl", "e2e"]), st.sampled_from([None, 0.5, 0.95, 1.0]),
                   st.sampled_from(["<", ">"]), st.integers(1, 5000).map(lambda ms: ms * MS))  # fmt: skip
lists = st.lists(st.builds(request, st.integers(1, 4000), st.lists(st.integers(1, 900), max_size=5).map(tuple)),
                 min_size=1, max_size=20)  # fmt: skip


def said(objective: Objective) -> str:
    return f"{objective.name}{objective.side}{objective.limit_ns // MS}ms"


@given(limits)
def test_an_objective_is_read_as_it_is_said(objective: Objective) -> None:
    assert read_slo(said(objective)) == (objective,)


@given(lists, limits, limits)
def test_what_excludes_each_other_is_never_met_by_any_requests(
    requests: list[Request], one: Objective, other: Objective
) -> None:
    try:
        read_slo(f"{said(one)},{said(other)}")
    except AskedWrongly as error:
        if "exclude" in str(error):
            assert not (held(one, requests) and held(other, requests))


@given(lists)
def test_a_narrower_limit_never_lets_more_requests_through(requests: list[Request]) -> None:
    wide, narrow = read_slo("ttft_p95<2s"), read_slo("ttft_p95<1s,itl_p95<150ms")
    assert goodput(narrow, requests, 1).good_count <= goodput(wide, requests, 1).good_count
