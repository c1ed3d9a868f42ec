"""Bounds of speed: by hand, by law, and never above what real engines did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.catalog.devices.seen import Speed, seen
from pellucid.core.units import S_NS
from pellucid.physics.config.read import read
from pellucid.physics.geometry import Geometry
from pellucid.physics.parameters import count
from pellucid.sim.paper.outlook import outlook
from pellucid.sim.paper.placement import Placement
from pellucid.sim.paper.speed import (
    Traffic,
    decode_time,
    more_prompts,
    prompt_time,
    prompts_per_s,
    steady_time,
    with_requests,
)
from tests.physics import configs
from tests.sim.paper.shapes import on_h200, setting

LLAMA, DEEPSEEK, QWEN = (read(c) for c in (configs.LLAMA_8B, configs.DEEPSEEK_V3, configs.QWEN3_30B))


def test_a_decode_of_one_reads_the_weights_once() -> None:
    """Llama-3.1-8B on an H200: 7.5 G parameters · 2 B at 4.8 TB/s, but for some activations."""
    timing = decode_time(on_h200(LLAMA, Placement()), 1, 1)
    weights_ns = count(LLAMA).active * 2 / 4.8e12 * S_NS
    assert timing.least_ns == pytest.approx(weights_ns, rel=0.01)
    assert timing.least_ns >= weights_ns


def test_a_prompt_more_is_its_multiplications() -> None:
    """2 flop for each parameter but the output matrix, at 989.4 TFLOP/s, and attention over half of 4,096."""
    added = more_prompts(on_h200(LLAMA, Placement()), 4096)
    head = LLAMA.vocabulary * LLAMA.hidden
    flop = 2 * 4096 * (count(LLAMA).active - head) + 32 * 4 * 4096 * 4096 * 4097 / 2
    assert added.least_ns == pytest.approx(flop / 989.4e12 * S_NS, rel=0.005)


@given(st.sampled_from([LLAMA, QWEN]), st.integers(1, 64), st.integers(16, 4096), st.sampled_from([1, 2, 4]))
def test_all_at_once_is_never_slower_than_in_turn(geometry: Geometry, batch: int, tokens: int, tp: int) -> None:
    model = on_h200(geometry, Placement(tp=tp))
    for timing in (decode_time(model, batch, tokens), prompt_time(model, tokens),
                   steady_time(model, Traffic(tokens, 64, batch), batch)):  # fmt: skip
        assert 0 < timing.least_ns <= timing.in_turn_ns * (1 + 1e-9)


@given(st.integers(1, 200), st.integers(1, 4000))
def test_more_requests_or_longer_ones_never_take_less(batch: int, context: int) -> None:
    model = on_h200(LLAMA, Placement())
    here = decode_time(model, batch, context).least_ns
    assert here <= decode_time(model, batch + 1, context).least_ns
    assert here <= decode_time(model, batch, context + 100).least_ns


@pytest.mark.parametrize("row", seen().speeds, ids=lambda r: f"{r.model}-{r.phase}-{r.batch_count}")
def test_no_engine_was_faster_than_its_roofs(row: Speed) -> None:
    assert row.in_turn_ns < row.taken_ns


def test_idle_replicas_leave_the_experts_to_the_others() -> None:
    model = on_h200(QWEN, Placement(dp=8, ep=True))
    alone, batch = with_requests(model, 1)
    assert (batch, alone.way.busy_ratio) == (1, 1 / 8)
    assert decode_time(alone, 1, 100).least_ns < decode_time(model, 1, 100).least_ns
    assert with_requests(model, 8)[0].way.busy_ratio == 1


def test_a_pipeline_takes_the_time_of_all_its_stages() -> None:
    whole, halves = (on_h200(LLAMA, Placement(pp=pp)) for pp in (1, 2))
    assert decode_time(halves, 8, 500).in_turn_ns == pytest.approx(decode_time(whole, 8, 500).in_turn_ns, rel=0.001)
    assert decode_time(halves, 8, 500).in_turn_ns > decode_time(whole, 8, 500).in_turn_ns
    assert prompts_per_s(halves, 1000) == pytest.approx(2 * prompts_per_s(whole, 1000), rel=0.01)


def test_replicas_that_share_nothing_add_up() -> None:
    one, two = (outlook(setting(LLAMA, Traffic(1000, 200, 16 * n)), Placement(dp=n)).speed for n in (1, 2))
    assert one is not None
    assert two is not None
    assert two.output_most_per_s == pytest.approx(2 * one.output_most_per_s)


def test_the_batch_in_time_is_the_largest_one() -> None:
    traffic, model = Traffic(1000, 200, 16), on_h200(LLAMA, Placement())
    found = outlook(setting(LLAMA, traffic), Placement(), target_ns=10e6)
    assert found.at_target is not None
    count, most = found.at_target.requests_count, found.in_time_most_count
    assert most is not None
    assert steady_time(model, traffic, count).in_turn_ns <= 10e6 < steady_time(model, traffic, count + 1).in_turn_ns
    assert steady_time(model, traffic, most).least_ns <= 10e6 < steady_time(model, traffic, most + 1).least_ns
    assert count < most


def test_a_target_that_one_request_misses_is_none() -> None:
    assert outlook(setting(LLAMA, Traffic(1000, 200, 16)), Placement(), target_ns=1e6).at_target is None


def test_drafts_that_are_all_kept_are_the_most_that_they_bring() -> None:
    plain, drafted = (outlook(setting(DEEPSEEK, Traffic(1000, 200, 16, n), "b300"), Placement(tp=8)) for n in (0, 1))
    assert plain.speed is not None
    assert drafted.speed is not None
    assert drafted.fit.weights_bytes > plain.fit.weights_bytes
    assert drafted.speed.tokens_factor == 2
    assert 1 < drafted.speed.output_most_per_s / plain.speed.output_most_per_s < 2


@pytest.mark.parametrize("wrong", [(0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0), (1, 1, 1, -1)])
def test_traffic_of_nothing_is_refused(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="1 at least"):
        Traffic(*wrong)
