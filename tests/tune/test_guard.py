from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid.catalog.knobs.spelling import Engine
from pellucid.physics.config.read import read
from pellucid.tune.command import Command
from pellucid.tune.guard import Situation, guard
from pellucid.tune.memory import Room, needs, shortage
from pellucid.tune.space import Setting, Value, candidate

GIB = 2**30
S_NS = 1_000_000_000
# About 0.25 GiB of weights in bf16.
TINY = read({
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 2816, "vocab_size": 32000,
    "torch_dtype": "bfloat16", "tie_word_embeddings": True, "head_dim": 64,
})  # fmt: skip
CONFIG: dict[str, Any] = {
    "max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 2048, "kv_cache_bytes": GIB,
    "num_gpu_blocks": 1024, "kv_cache_memory_bytes": GIB, "dtype": "torch.bfloat16",
}  # fmt: skip
CPU = Engine("vllm", "0.32.0", {"device": "cpu", **CONFIG})
GPU = Engine("vllm", "0.32.0", {"device": "cuda", **CONFIG, "kv_cache_memory_bytes": None, "async_scheduling": False,
                                "gpu_memory_utilization": 0.9, "kv_cache_bytes": 8 * GIB})  # fmt: skip
ROOM = Room("this host", 24 * GIB, 10 * GIB, 5 * GIB)
SITUATION = Situation(
    engine=CPU, geometry=TINY, command=Command(("serve", "m")), present=(), tried=(), room=ROOM, live=frozenset(),
    control=False, beside=True, may_restart=False, left_ns=600 * S_NS, trial_ns=120 * S_NS,
)  # fmt: skip


def one(knob: str, value: Value) -> tuple[Setting, ...]:
    return (Setting(knob, value),)


RUNNING = one("max_running_requests", 64)


def ruled(settings: tuple[Setting, ...], **changes: Any) -> tuple[str, str]:
    ruling = guard(settings, replace(SITUATION, **changes))
    assert ruling.allowed == (ruling.check == "")
    return ruling.check or str(ruling.way), ruling.reason


def test_what_is_known_in_range_new_and_has_room_is_tried_beside_the_serving_engine() -> None:
    assert ruled(RUNNING) == ("beside", "")


@pytest.mark.parametrize(("settings", "says"), [
    (one("colour", 1), "no knob"), (one("max_running_requests", 5000), "from 1 to 4096"),
    (one("max_running_requests", 4000), "a step must hold them"), (one("async_scheduling", True), "on cpu has no"),
    (one("speculation", True), "takes a configuration"),
])  # fmt: skip
def test_what_the_engine_would_refuse_is_refused_first(settings: tuple[Setting, ...], says: str) -> None:
    check, reason = ruled(settings)
    assert (check, says in reason) == ("legality", True)


def test_a_command_in_which_nothing_can_be_set_is_refused() -> None:
    check, reason = ruled(RUNNING, command=Command(("sh", "-c", "serve")))
    assert (check, "Give the command itself" in reason) == ("legality", True)


def test_couplings_count_what_was_kept_before() -> None:
    kept = one("step_token_budget", 32)
    assert ruled(RUNNING, present=kept)[0] == "legality"
    assert ruled(candidate((*RUNNING, Setting("step_token_budget", 64))), present=kept)[0] == "beside"


def test_what_is_in_effect_already_is_no_candidate() -> None:
    assert ruled(one("max_running_requests", 16)) == ("same", "max_running_requests=16 is in effect already")
    assert ruled(RUNNING, present=RUNNING)[0] == "same"
    assert ruled(one("max_running_requests", 16), present=RUNNING)[0] == "beside", "back to where it was is a change"
    assert ruled(one("max_running_requests", 64), command=Command(("serve", "--max-num-seqs", "64")))[0] == "same"


def test_what_was_tried_in_other_words_was_tried() -> None:
    assert ruled(RUNNING, tried=(RUNNING,))[0] == "tried"
    both = candidate((*RUNNING, Setting("step_token_budget", 512)))
    assert ruled(RUNNING, tried=(both,))[0] == "beside"
    assert ruled(RUNNING, tried=(both,), present=one("step_token_budget", 512))[0] == "tried"


def test_the_present_configuration_against_itself_may_be_tried_again_and_again() -> None:
    assert ruled((), tried=((),))[0] == "beside"


@pytest.mark.parametrize(("changes", "wanted"), [
    ({"live": frozenset({"max_running_requests"}), "control": True}, "live"),
    ({"live": frozenset({"max_running_requests"}), "control": False}, "beside"),
    ({"live": frozenset({"max_running_requests"}), "control": False, "beside": False}, "blast radius"),
    ({"live": frozenset({"step_token_budget"}), "control": True}, "beside"),
    ({"beside": False}, "blast radius"), ({"beside": False, "may_restart": True}, "restart"),
    ({"may_restart": True}, "beside"), ({"may_restart": True, "room": replace(ROOM, free_bytes=GIB)}, "restart"),
])  # fmt: skip
def test_the_way_that_touches_least_is_taken(changes: dict[str, Any], wanted: str) -> None:
    assert ruled(RUNNING, **changes)[0] == wanted


def test_a_refused_way_says_what_would_open_it() -> None:
    assert "Try: room for a second engine" in ruled(RUNNING, beside=False)[1]
    assert "Try: --control" in ruled(RUNNING, beside=False, live=frozenset({"max_running_requests"}))[1]


def test_a_budget_too_small_for_a_trial_is_said_before_it_begins() -> None:
    assert ruled(RUNNING, left_ns=120 * S_NS)[0] == "beside"
    check, reason = ruled(RUNNING, left_ns=119 * S_NS)
    assert (check, reason) == ("budget", "119 s of the budget are left, and max_running_requests=64 takes 120 s at least. Try: a larger --budget")  # noqa: E501


def test_parts_are_those_of_the_formulae() -> None:
    parts = {p.name: p.size_bytes for p in needs(one("kv_cache_memory", 2048), CPU, TINY).parts}
    per_layer = 1024 * 1024 * 2 + 2 * 4 * 64 * 1024 + 3 * 1024 * 2816 + 2 * 1024
    assert parts["weights"] == 2 * (8 * per_layer + 32000 * 1024 + 1024)
    assert parts["KV cache"] == 2 * GIB
    assert parts["activations"] == 2 * 2048 * 1024 * 2 + 2048 * 3 * 2816 * 2


def test_weights_are_of_the_type_that_they_are_served_in() -> None:
    def weights(settings: tuple[Setting, ...], **config: Any) -> float:
        of = Engine("vllm", "0.32.0", {"device": "cuda", **config})
        return next(p.size_bytes for p in needs(settings, of, TINY).parts if p.name == "weights")

    stored = weights((), dtype="torch.bfloat16")
    assert weights((), dtype="torch.float32") == 2 * stored
    assert weights(one("weights_fp8", True), dtype="torch.bfloat16") == stored / 2
    assert weights(one("weights_fp8", True), quantization="awq") == stored
    assert weights((), tensor_parallel_size=2) == stored / 2


def test_what_does_not_fit_is_refused_with_the_sum() -> None:
    check, reason = ruled(one("kv_cache_memory", 10 * 1024))
    assert check == "memory"
    assert reason.startswith("beside: it needs 14.0 GiB of this host at least (measured of the present engine 5.0 GiB")
    assert reason.endswith("and 10.0 GiB are free")
    check, reason = ruled(one("kv_cache_memory", 10 * 1024), room=replace(ROOM, engine_bytes=None))
    assert (check, "weights 2" in reason, "KV cache 10.0 GiB" in reason) == ("memory", True, True)


def test_exactly_what_is_free_fits() -> None:
    wanted = needs(one("kv_cache_memory", 6 * 1024), CPU, TINY)
    free = int(5 * GIB + (wanted.more_bytes or 0))
    assert shortage(wanted, replace(ROOM, free_bytes=free), "beside") == ""
    assert shortage(wanted, replace(ROOM, free_bytes=free - 1), "beside") != ""


def test_after_a_restart_the_present_engines_memory_is_free() -> None:
    big = one("kv_cache_memory", 10 * 1024)
    assert ruled(big, beside=False, may_restart=True)[0] == "restart"
    assert ruled(one("kv_cache_memory", 20 * 1024), beside=False, may_restart=True)[0] == "memory"


def test_a_share_of_a_device_is_taken_whole_and_must_be_free() -> None:
    room = Room("device 0", 100 * GIB, 50 * GIB, 40 * GIB)
    wanted = needs((), GPU, TINY)
    assert "takes 90% of device 0 by itself, 90.0 GiB, and 50.0 GiB are free" in shortage(wanted, room, "beside")
    assert shortage(wanted, room, "restart") == ""
    small = needs(one("device_memory_share", 0.4), GPU, TINY)
    assert shortage(small, room, "beside") == ""
    least = needs(one("device_memory_share", 0.05), GPU, TINY)
    assert "and 5.0 GiB are its share" in shortage(least, room, "beside")


def test_an_engine_that_is_told_its_caches_size_or_has_no_device_takes_no_share() -> None:
    share = needs((), GPU, TINY).share_ratio
    told = Engine("vllm", "0.32.0", {**GPU.config, "kv_cache_memory_bytes": GIB})
    nowhere = Engine("vllm", "0.32.0", {k: v for k, v in GPU.config.items() if k != "device"})
    shares = [needs(one("kv_cache_limit", 64), GPU, TINY), needs((), told, TINY), needs((), nowhere, TINY)]
    assert (share, [n.share_ratio for n in shares]) == (0.9, [None, None, None])


def test_what_is_not_known_is_said_and_does_not_refuse() -> None:
    blind = Engine("vllm", "0.32.0", {"device": "cpu", "max_num_seqs": 16})
    ruling = guard(RUNNING, replace(SITUATION, engine=blind, geometry=None, room=Room("this host", None, None, None)))
    assert ruling.way == "beside"
    assert [note.partition(":")[0] for note in ruling.notes[:2]] == ["weights and activations", "KV cache"]
    assert "is not known, so nothing was compared" in ruling.notes[2]
