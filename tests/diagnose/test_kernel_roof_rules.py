"""Rules about roofs on real traces, loaded as a user loads them: where each finds something, and where nearly."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pellucid.catalog.kernels.attention import generations, read_generations
from pellucid.catalog.kernels.names_of import rules
from pellucid.catalog.load import knobs
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Verdict
from pellucid.diagnose.run import diagnose
from pellucid.store.read import open_run
from pellucid.verbs.intake.load import load
from pellucid.verbs.record import RecordInto
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

SERVED = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"
PROMPTS = "h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz"
LOG = "h200_vllm024/qwen3-30b-a3b_offline.log.gz"
QWEN_H100, VISION_H100 = "torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz", "torch_traces/h100_nsfw-vit_hf.json.gz"
EAGER_B200, COMPILED_MI300 = "torch_traces/b200_eager.json.gz", "torch_traces/mi300_torch_compile_triton.json.gz"
NO_DEVICE = "nsys_ncu/h100_2gpu_1s.sqlite"
OURS = ("kernel.bytes_at_roof", "kernel.attention_behind_its_gpu", "kernel.moe_untuned", "kernel.gemm_far_from_roof",
        "config.precision_unused")  # fmt: skip
# No trace here was recorded beside a log that misses a tuned file: kernel.moe_untuned finds in tests/golden/device.
REAL = [
    ("kernel.bytes_at_roof", (SERVED,), "found", "moe_gemm is 72% of them (14 ms) and moves 4.04 TB/s"),
    ("kernel.bytes_at_roof", (PROMPTS,), "not_applicable", "bound by arithmetic"),
    ("kernel.attention_behind_its_gpu", (QWEN_H100,), "found", "prefill: attention (fa2) takes 7.8% of the time"),
    ("kernel.attention_behind_its_gpu", (VISION_H100,), "found", "outside of steps, of a model that is not known"),
    ("kernel.attention_behind_its_gpu", (PROMPTS,), "clear", "(fa3) takes 30% of the time and is made for"),
    ("kernel.attention_behind_its_gpu", (EAGER_B200,), "clear", "(trtllm_gen_prefill)"),
    ("kernel.attention_behind_its_gpu", (COMPILED_MI300,), "not_applicable", "has no compute capability"),
    ("kernel.moe_untuned", (PROMPTS, LOG), "clear", "tuned for it (E=128,N=768,device_name=NVIDIA_H200.json)"),
    ("kernel.moe_untuned", (PROMPTS,), "blind", "without the engine's log"),
    ("kernel.gemm_far_from_roof", (VISION_H100,), "found", "take 60% of the time, 10 µs each on average at 19%"),
    ("kernel.gemm_far_from_roof", (SERVED,), "clear", "50% of the measured roof; a library comes no nearer"),
    ("kernel.gemm_far_from_roof", (PROMPTS,), "clear", "92% of the measured roof: nothing to gain there"),
    ("kernel.gemm_far_from_roof", (COMPILED_MI300,), "clear", "nobody measured"),
    ("config.precision_unused", (PROMPTS,), "found", "take 54% of the time; NVIDIA H200 multiplies 1.7 times as fast"),
    ("config.precision_unused", (EAGER_B200,), "clear", "too little to gain"),
    ("config.precision_unused", (NO_DEVICE,), "blind", "does not say what it ran on"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@cache
def verdicts(home: Path, *names: str) -> dict[str, Verdict]:
    """What our rules say of files that became one run."""
    loaded = load([shared_data(name) for name in names], RecordInto(home))
    asked = [rule for rule in all_rules() if rule.id in OURS]
    return {result.rule.id: result.verdict for result in diagnose(open_run(loaded.folder), rules=asked).results}


@pytest.mark.parametrize(("rule", "names", "kind", "says"), REAL, ids=lambda value: str(value)[:40])
def test_what_a_rule_says_of_a_real_trace(home: Path, rule: str, names: tuple[str, ...], kind: str, says: str) -> None:
    verdict = verdicts(home, *names)[rule]
    assert (verdict.kind, says in verdict.says) == (kind, True), verdict.says


@pytest.mark.parametrize("names", [(SERVED,), (PROMPTS,), (PROMPTS, LOG)])
def test_no_finding_of_a_tuned_model_calls_it_untuned(home: Path, names: tuple[str, ...]) -> None:
    found = verdicts(home, *names)
    assert set(found) == set(OURS)
    assert [verdict.says for verdict in found.values() if "untuned" in verdict.says] == []


def test_a_missing_file_beside_a_kernel_as_near_as_tuned_ones_is_no_finding(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("(EngineCore pid=9) WARNING 11-29 12:00:00 [fused_moe.py:1058] Using default MoE config. "
                   "Performance might be sub-optimal! Config file not found at E=128,N=768.json\n")  # fmt: skip
    for trace in (SERVED, PROMPTS):
        loaded = load([shared_data(trace), log], RecordInto(home))
        asked = [rule for rule in all_rules() if rule.id == "kernel.moe_untuned"]
        (result,) = diagnose(open_run(loaded.folder), rules=asked).results
        assert (result.verdict.kind, "next to nothing to gain" in result.verdict.says) == ("clear", True)


def test_generations_name_kernels_and_knobs_that_there_are() -> None:
    details = {rule.detail for of in rules().values() for rule in of}
    for of in generations().values():
        assert {*of.made_for, *(older.detail for older in of.older)} <= details
        assert all(knobs()[older.knob].low <= older.target <= knobs()[older.knob].high for older in of.older)
    assert generations()["9.0"].older_of("fa3") is None


@pytest.mark.parametrize("odd", ["made_for = ['fa2']", "made_for = []\nspeed = 1"])
def test_a_generation_older_than_itself_or_an_unknown_key_is_refused(odd: str) -> None:
    older = "[[capability.'9.0'.older]]\nlow_times = 1\nhigh_times = 2\nsource = ''\nknob = ''\ntarget = 1"
    with pytest.raises(ValueError, match=r"attention_generations\.toml"):
        read_generations(f"[capability.'9.0']\nnewer = 'x'\nsource = ''\n{odd}\n{older}\ndetail = 'fa2'")


def test_what_a_log_says_of_the_start_holds_for_the_last_part_too(tmp_path: Path) -> None:
    folder = load([shared_data(PROMPTS), shared_data(LOG)], RecordInto(tmp_path, tmp_path / "run")).folder
    rule = next(r for r in all_rules() if r.id == "kernel.moe_untuned")
    for since_ns in (None, 300_000_000):
        (result,) = diagnose(open_run(folder), since_ns, [rule]).results
        assert (result.verdict.kind, "tuned for it" in result.verdict.says) == ("clear", True), result.verdict.says
