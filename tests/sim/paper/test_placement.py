"""Which placements there are, and why others are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.physics.config.read import read
from pellucid.sim.paper.placement import Placement, placements, stages
from tests.physics import configs
from tests.physics.configs import FP8_BLOCKS, Config


def refusal(config: Config, placement: Placement, domain: int = 8) -> str:
    found = placements(read(config), placement.gpus_count, domain)
    return next((r.reason for r in found.refused if r.placement == placement), "")


def test_a_dense_model_on_four_gpus() -> None:
    names = [p.name for p in placements(read(configs.LLAMA_8B), 4, 8).possible]
    assert names == ["TP4", "TP2 DP2", "TP2 PP2", "DP4", "PP2 DP2", "PP4"]


def test_experts_are_shared_out_over_all_ranks() -> None:
    names = [p.name for p in placements(read(configs.QWEN3_30B), 4, 8).possible]
    assert {"TP4 EP4", "TP2 DP2 EP4", "DP4 EP4", "TP2 PP2 EP2"} <= set(names)
    assert Placement().name == "1 GPU"


QWEN3_30B_FP8 = {**configs.QWEN3_30B, "quantization_config": FP8_BLOCKS}


@pytest.mark.parametrize(("config", "placement", "words"), [
    (configs.LLAMA_8B, Placement(tp=3), "cannot be cut in 3 equal parts"),
    (configs.LLAMA_8B, Placement(pp=33), "32 layers are fewer than 33 stages"),
    (configs.LLAMA_8B, Placement(tp=16), "more than the 8 GPUs of one scale-up domain"),
    (configs.QWEN3_30B, Placement(dp=16, ep=True), "more than the 8 GPUs of one scale-up domain"),
    (configs.MIXTRAL, Placement(tp=2, dp=8, ep=True), "more than the 8 GPUs"),
    (QWEN3_30B_FP8, Placement(tp=8), "would cut a block of 128 that has one scale"),
], ids=lambda v: v.name if isinstance(v, Placement) else "")  # fmt: skip
def test_what_cannot_be_says_why(config: Config, placement: Placement, words: str) -> None:
    assert words in refusal(config, placement)


@pytest.mark.parametrize(("config", "placement"), [
    (configs.LLAMA_8B, Placement(tp=4)), (configs.LLAMA_8B, Placement(pp=8)), (configs.LLAMA_8B, Placement(dp=16)),
    (QWEN3_30B_FP8, Placement(tp=2)), (QWEN3_30B_FP8, Placement(tp=8, ep=True)), (configs.GPT_OSS, Placement(tp=8)),
], ids=lambda v: v.name if isinstance(v, Placement) else "")  # fmt: skip
def test_their_near_misses_can_be(config: Config, placement: Placement) -> None:
    assert refusal(config, placement) == ""


def test_experts_that_do_not_share_out_evenly() -> None:
    assert "8 experts cannot be shared out evenly over 16 ranks" in refusal(
        configs.MIXTRAL, Placement(dp=16, ep=True), domain=16)  # fmt: skip


@given(st.integers(1, 16), st.integers(1, 32))
def test_every_gpu_is_used_and_every_layer_is_somewhere(gpus_count: int, pp: int) -> None:
    geometry = read(configs.LLAMA_8B)
    found = placements(geometry, gpus_count, 8)
    assert all(p.gpus_count == gpus_count for p in found.possible)
    parts = stages(geometry, pp)
    assert sum((part.layers for part in parts), ()) == geometry.layers
    assert max(len(p.layers) for p in parts) - min(len(p.layers) for p in parts) <= 1
