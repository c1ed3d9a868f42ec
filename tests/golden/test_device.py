"""Recordings of vLLM 0.24 on an H200, as `pellucid record` and `pellucid profile` made them. Random weights.

    moe-uniform   DeepSeek-V2-Lite shapes, device graphs, uniform simulated routing; decodes of 64 and 1, long prompts
    moe-skewed    the same, routing by a normal distribution
    neighbour     Qwen3-0.6B shapes, four captures; in a fifth another program copies memory on the same device
    sampling      the same model; decodes of 64 without and with top_p and top_k
    eager         the same model without device graphs, decodes of 8 and 64; its steps and captures only

Paths of the machine were taken out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pellucid.diagnose.rule import CLEAR, FOUND, Verdict
from pellucid.diagnose.run import diagnose
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import broken

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "device"
FINDS = {
    "moe-uniform": {"kernel.bytes_at_roof", "config.precision_unused"}, "moe-skewed": set(),
    "neighbour": {"kernel.regressed"}, "sampling": {"kernel.sampling_heavy"},
    "eager": {"config.eager_mode", "kernel.launch_bound"},
}  # fmt: skip


def golden(name: str) -> RunReader:
    return open_run(HERE / name)


@cache
def verdicts(name: str) -> dict[str, Verdict]:
    report = diagnose(golden(name))
    return {r.rule.id: r.verdict for r in report.results}


def test_each_recording_is_judged() -> None:
    assert {p.name for p in HERE.iterdir()} == set(FINDS)


@pytest.mark.parametrize("name", FINDS)
def test_exactly_what_was_made_is_found(name: str) -> None:
    assert {rule for rule, v in verdicts(name).items() if v.kind == FOUND} == FINDS[name]


@pytest.mark.parametrize("name", sorted(FINDS.keys() - {"eager"}))
def test_it_adds_up(name: str) -> None:
    assert broken(golden(name)) == {}


def test_experts_without_a_tuned_configuration_are_no_loss_where_their_kernel_is_at_its_roof() -> None:
    log = golden("moe-uniform").one("SELECT count(*) AS n FROM log_events WHERE kind = 'moe_untuned'")
    assert log["n"] == 1
    assert verdicts("moe-uniform")["kernel.moe_untuned"].kind == CLEAR
    says = verdicts("moe-uniform")["kernel.bytes_at_roof"].says
    assert "decode at batch 64 takes 11 ms a step" in says and "97% of what the device can" in says
    assert "nothing to gain in the kernel" in says


def test_steps_in_device_graphs_are_near_misses_of_launches_one_by_one() -> None:
    for name in ("moe-uniform", "moe-skewed", "neighbour", "sampling"):
        assert verdicts(name)["kernel.launch_bound"].kind == verdicts(name)["config.eager_mode"].kind == CLEAR


def test_sampling_without_top_p_is_a_near_miss() -> None:
    assert verdicts("neighbour")["kernel.sampling_heavy"].kind == CLEAR


@pytest.mark.parametrize("name", FINDS)
def test_they_tell_nothing_of_the_machine(name: str) -> None:
    for path in (HERE / name).iterdir():
        assert not any(word in path.read_bytes() for word in (b"/tmp/", b"/opt/", b"/root/", b"/home/"))
