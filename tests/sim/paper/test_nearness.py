"""Ranges from engines that were seen: what they hold, and where there is none."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from bench.loop.nearness.models import MODELS
from bench.loop.nearness.page import reserve_table, said_of, speed_table
from pellucid.catalog.devices.seen import Speed, read_seen, seen
from pellucid.core.units import US_NS
from pellucid.physics.config.read import read
from pellucid.physics.work import Work
from pellucid.sim.paper.fit import Span
from pellucid.sim.paper.nearness import nearness, steady_range
from pellucid.sim.paper.placement import Placement
from pellucid.sim.paper.speed import Timing, Traffic, decode_time, steady_time
from tests.conftest import shared_data
from tests.physics.configs import QWEN3_30B
from tests.sim.paper.shapes import on_h200


def speed(model: str, turn_ns: float, taken_ns: float, calls: float = 100, device: str = "h200") -> Speed:
    return Speed(device, 1, "decode", model, "bf16", "an engine", "a source", 1, 0, 0, 100, calls, turn_ns, taken_ns)


def timing(least_ns: float, turn_ns: float, calls: float) -> Timing:
    return Timing(least_ns, turn_ns, (("memory", turn_ns),), calls, Work(), (), ())


# Roof ÷ 0.8, and 3 µs for each of 100 calls: what is left between models is in the last digit.
LAW = [speed("a", 1e6, 1.625e6), speed("b", 4e6, 5.375e6), speed("c", 16e6, 20.375e6)]


def test_time_of_a_call_is_found_again() -> None:
    found = nearness("decode", "h200", LAW)
    assert found is not None
    assert found.call_ns == pytest.approx(3000, abs=1)
    assert found.seen_ratio == Span(pytest.approx(0.8, abs=0.001), pytest.approx(0.8, abs=0.001))  # type: ignore[arg-type]


def test_the_range_of_a_time_never_begins_below_its_floor() -> None:
    found = nearness("decode", "h200", LAW)
    assert found is not None
    assert found.time_ns(timing(1.0, 2e6, 100)).low == pytest.approx(2.875e6, rel=0.01)
    assert found.time_ns(timing(9e6, 2e6, 100)) == Span(9e6, 9e6)


@pytest.mark.parametrize("rows", [
    LAW[:2], [*LAW[:2], speed("b", 9e6, 12e6)], [*LAW[:2], speed("c", 16e6, 20e6, device="b200")], [],
], ids=["two", "two models", "another device", "none"])  # fmt: skip
def test_fewer_than_three_models_make_no_range(rows: list[Speed]) -> None:
    assert nearness("decode", "h200", rows) is None


def test_one_model_unlike_the_others_draws_the_range_apart() -> None:
    odd = [*LAW, speed("d", 8e6, 30e6)]
    plain, drawn = nearness("decode", "h200", LAW), nearness("decode", "h200", odd)
    assert plain is not None
    assert drawn is not None
    assert drawn.ratio.low < drawn.seen_ratio.low < plain.ratio.low
    assert drawn.held_count < drawn.rows_count


DECODES = [s for s in seen().speeds if s.phase == "decode"]


@pytest.mark.parametrize("row", DECODES, ids=lambda s: f"{s.model}-{s.batch_count}")
def test_the_file_says_what_the_formulae_say_today(row: Speed) -> None:
    found = decode_time(on_h200(MODELS[row.model], Placement()), row.batch_count, row.context_tokens)
    told = (round(found.in_turn_ns), round(found.calls_count))
    assert told == (row.in_turn_ns, row.calls_count), "run python -m bench.loop.nearness"


def test_nine_in_ten_decodes_are_inside_the_range() -> None:
    found = nearness("decode", "h200", seen().speeds)
    assert found is not None
    spans = [found.time_ns(timing(0, s.in_turn_ns, s.calls_count)) for s in DECODES]
    inside = [span.low <= s.taken_ns <= span.high for s, span in zip(DECODES, spans, strict=True)]
    assert sum(inside) >= 0.9 * len(DECODES)
    assert len(found.models) == 4


def test_loads_of_clients_are_inside_what_decodes_and_prompts_make() -> None:
    rows = [s for s in seen().speeds if s.phase == "steady"]
    assert len(rows) == 12
    for row in rows:
        model = on_h200(MODELS[row.model], Placement())
        traffic = Traffic(row.prompt_tokens, row.output_tokens, row.batch_count)
        found = steady_range(model, traffic, row.batch_count, seen().speeds)
        assert found is not None
        assert steady_time(model, traffic, row.batch_count).least_ns <= found.low <= row.taken_ns <= found.high


@pytest.mark.parametrize(("change", "words"), [
    ('source = "nobody"', "sources that are not listed: nobody"), ("taken_ns = 1", "of the roof"),
    ("unheard = 1", "unknown field"),
])  # fmt: skip
def test_a_file_that_is_wrong_is_refused(change: str, words: str) -> None:
    key = change.split(" = ")[0]
    lines = {"device": '"h200"', "gpus_count": "1", "phase": '"decode"', "model": '"a"', "weights": '"bf16"',
             "engine": '"e"', "source": '"s"', "batch_count": "1", "prompt_tokens": "0", "output_tokens": "0",
             "context_tokens": "9", "calls_count": "1", "in_turn_ns": "5", "taken_ns": "9"}  # fmt: skip
    lines[key] = change.split(" = ")[1]
    text = 'reserves = []\n[sources]\ns = "x"\n[[speeds]]\n' + "\n".join(f"{k} = {v}" for k, v in lines.items())
    with pytest.raises(ValueError, match=words):
        read_seen(text)


@pytest.mark.slow
def test_a_model_that_the_range_was_not_made_of() -> None:
    """64 decodes of Qwen3-30B-A3B shapes on an H200: from the begin of a step to the next one's, in a trace."""
    path = shared_data("h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz")
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if "dur" in e]
    begins = sorted(e["ts"] for e in events if e.get("cat") == "gpu_user_annotation"
                    and e["name"] == "execute_context_0(0)_generation_64(64)")  # fmt: skip
    taken_ns = median(later - earlier for earlier, later in pairwise(begins)) * US_NS
    found = nearness("decode", "h200", seen().speeds)
    assert found is not None
    assert "qwen3-30b-a3b" not in found.models
    span = found.time_ns(decode_time(on_h200(read(QWEN3_30B), Placement()), 64, 1006))
    assert taken_ns == pytest.approx(19.8e6, rel=0.01)
    assert span.low < taken_ns < span.high


def test_the_page_has_the_tables_of_the_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "predict_on_paper.md").read_text()
    lines = [*speed_table(seen().speeds), *reserve_table(seen().reserves), *said_of(seen().speeds)]
    assert [line for line in lines if line not in page] == []
