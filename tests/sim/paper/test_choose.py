"""Cost by hand, and why placements are behind the best."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.physics.config.read import read
from pellucid.sim.paper.choose import judged, ranked
from pellucid.sim.paper.cost import Api, against_api, joules_per_token, per_million
from pellucid.sim.paper.fit import Span
from pellucid.sim.paper.outlook import outlook
from pellucid.sim.paper.placement import placements
from pellucid.sim.paper.speed import Traffic
from tests.physics import configs
from tests.physics.configs import Config
from tests.sim.paper.shapes import setting

LLAMA_70B_FP8: Config = {**configs.LLAMA_70B, "quantization_config": {"quant_method": "fp8"}}


def order(
    config: Config, gpus: int, traffic: Traffic, gpu: str = "h200", target_ns: float | None = None
) -> dict[str, str]:
    """Placements from the best on, with the reason each has."""
    geometry = read(config)
    asked = setting(geometry, traffic, gpu, Span(1e9, 4e9))
    found = [outlook(asked, p, target_ns) for p in placements(geometry, gpus, asked.domain).possible]
    return {r.outlook.placement.name: r.reason for r in ranked(found, target_ns is not None)}


def test_the_best_has_no_reason_and_all_others_have_one() -> None:
    found = order(configs.LLAMA_70B, 8, Traffic(1000, 200, 64))
    assert [name for name, reason in found.items() if not reason] == [next(iter(found))]


@pytest.mark.parametrize(("config", "gpus", "gpu", "name", "words"), [
    (configs.LLAMA_70B, 2, "h100_sxm", "DP2", "does not fit: weights of 131.4 GiB"),
    (LLAMA_70B_FP8, 8, "h200", "TP8", "on the wires between GPUs"),
    (LLAMA_70B_FP8, 8, "h200", "TP2 DP4", "reads more for each token"),
    (configs.LLAMA_8B, 3, "h200", "PP3", "within 2.0% of the best"),
])  # fmt: skip
def test_why_a_placement_is_behind(config: Config, gpus: int, gpu: str, name: str, words: str) -> None:
    assert words in order(config, gpus, Traffic(1000, 200, 64), gpu)[name]


def test_room_for_fewer_requests_is_a_reason() -> None:
    found = order(configs.LLAMA_70B, 8, Traffic(8000, 1000, 400), "h100_sxm")
    assert "has room for" in found["TP2 DP4"]
    assert "the best" in found["TP2 DP4"]


def test_a_target_that_is_missed_is_a_reason() -> None:
    found = order(LLAMA_70B_FP8, 8, Traffic(1000, 200, 64), target_ns=10e6)
    assert found["DP8"] == "misses the target with a single request, its roofs in turn"
    assert found["TP2 DP4"].startswith("meets the target with")


def test_where_nothing_fits_everything_says_so() -> None:
    found = order(configs.DEEPSEEK_V3, 2, Traffic(1000, 200, 64))
    assert all("does not fit" in reason for reason in found.values())


def test_what_is_compared_is_what_was_asked_for() -> None:
    found = outlook(setting(read(configs.LLAMA_8B), Traffic(1000, 200, 16)), placements(
        read(configs.LLAMA_8B), 1, 8).possible[0], 10e6)  # fmt: skip
    assert judged(found, False) is found.speed
    assert judged(found, True) is found.at_target


def test_prices_by_hand() -> None:
    assert per_million(36.0, 10_000) == pytest.approx(1.0)              # 0.01 a second for 10,000 tokens
    assert Api(0.5, 2.0).of(1000, 500) == pytest.approx(0.0015)
    even = against_api(0.0015, 36.0, 20.0)
    assert even.requests_per_s == pytest.approx(6.667, abs=0.001)
    assert even.utilisation_ratio == pytest.approx(1 / 3)
    assert joules_per_token(700, 3500) == 0.2
    with pytest.raises(ValueError, match="costs nothing"):
        against_api(0.0, 36.0, 20.0)


@given(st.floats(0.1, 100), st.floats(1, 1e6), st.floats(1.1, 10))
def test_cost_scales(hourly: float, per_s: float, times: float) -> None:
    assert per_million(hourly * times, per_s) == pytest.approx(per_million(hourly, per_s) * times)
    assert per_million(hourly, per_s * times) == pytest.approx(per_million(hourly, per_s) / times)
