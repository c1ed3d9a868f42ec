from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.tune.command import Command, changed, shareable
from pellucid.tune.space import Setting


def engine(device: str = "cuda", **config: Any) -> Engine:
    return Engine("vllm", "0.32.0", {"device": device, **config})


BLOCKS: dict[str, Any] = {"kv_cache_bytes": 2**30, "num_gpu_blocks": 1024, "kv_cache_memory_bytes": 2**30}


def after(text: str, knob: str, value: int | float | bool | str, of: Engine | None = None) -> list[str]:
    return list(changed(Command(tuple(shlex.split(text))), (Setting(knob, value),), of or engine()).argv)


@pytest.mark.parametrize(("before", "wanted"), [
    ("serve m", "serve m --max-num-seqs 64"),
    ("serve m --max-num-seqs 8 --port 1", "serve m --max-num-seqs 64 --port 1"),
    ("serve m --max-num-seqs=8 --port 1", "serve m --max-num-seqs=64 --port 1"),
    ("serve m --max_num_seqs 8", "serve m --max-num-seqs 64"),
    ("serve m --max_num_seqs=8 --max-num-seqs 9 --port 1", "serve m --max-num-seqs=64 --port 1"),
    ("serve m --max-num-seqs-like 8", "serve m --max-num-seqs-like 8 --max-num-seqs 64"),
])  # fmt: skip
def test_a_flag_is_replaced_where_it_stands_however_it_is_written(before: str, wanted: str) -> None:
    assert after(before, "max_running_requests", 64) == wanted.split()


def test_a_short_name_is_the_same_flag() -> None:
    assert after("serve -dp 2 m", "engine_replicas", 4) == ["serve", "--data-parallel-size", "4", "m"]


def test_a_share_keeps_its_fraction() -> None:
    assert after("serve", "device_memory_share", 0.85) == ["serve", "--gpu-memory-utilization", "0.85"]


@pytest.mark.parametrize(("before", "value", "wanted"), [
    ("serve m", True, "serve m --async-scheduling"), ("serve m", False, "serve m --no-async-scheduling"),
    ("serve --async-scheduling m", False, "serve m"),
    ("serve --no-async-scheduling m", True, "serve m --async-scheduling"),
])  # fmt: skip
def test_a_switch_is_put_or_taken_away_or_denied(before: str, value: bool, wanted: str) -> None:
    assert after(before, "async_scheduling", value) == wanted.split()


def test_a_choice_is_the_engines_word() -> None:
    assert after("serve --scheduling-policy=fcfs m", "scheduling_policy", "priority") == [
        "serve", "--scheduling-policy=priority", "m"]  # fmt: skip


def test_a_flag_that_turns_something_off_does_not_take_the_next_word_with_it() -> None:
    assert after("serve --enforce-eager m", "device_graphs", True) == ["serve", "m"]
    assert after("serve m", "device_graphs", False) == ["serve", "m", "--enforce-eager"]


def test_a_switch_with_an_argument_takes_the_place_of_another_argument() -> None:
    assert after("serve -q awq m", "weights_fp8", True) == ["serve", "--quantization", "fp8", "m"]
    assert after("serve --quantization=fp8 m", "weights_fp8", False) == ["serve", "m"]


def test_speculation_goes_with_its_object_and_all_its_keys() -> None:
    assert after("""serve --speculative-config '{"method": "ngram"}' m""", "speculation", False) == ["serve", "m"]
    dotted = "serve --speculative-config.method ngram --speculative-config.num_speculative_tokens=4 m"
    assert after(dotted, "speculation", False) == ["serve", "m"]
    with pytest.raises(AskedWrongly, match="takes a configuration"):
        after("serve", "speculation", True)


def test_a_key_of_an_object_changes_and_the_rest_of_it_stays() -> None:
    before = json.dumps({"method": "ngram", "num_speculative_tokens": 6, "something": [1]})
    wanted = {"method": "ngram", "num_speculative_tokens": 2, "something": [1]}
    speculating = engine(num_speculative_tokens=6, speculative_method="ngram")
    words = after(f"serve --speculative-config '{before}' m", "speculative_tokens", 2, speculating)
    assert (words[:2], json.loads(words[2]), words[3]) == (["serve", "--speculative-config"], wanted, "m")
    joined = after(f"serve --speculative_config='{before}'", "speculative_tokens", 2, speculating)[1]
    assert json.loads(joined.partition("=")[2]) == wanted
    dotted = after("serve --speculative-config.num_speculative_tokens 6", "speculative_tokens", 2, speculating)
    assert dotted == ["serve", "--speculative-config.num_speculative_tokens", "2"]


def test_an_object_that_is_not_in_the_command_is_made_of_what_was_recorded() -> None:
    words = after("serve", "speculative_tokens", 2, engine(num_speculative_tokens=6, speculative_method="ngram"))
    assert (words[1], json.loads(words[2])) == (
        "--speculative-config", {"method": "ngram", "num_speculative_tokens": 2})  # fmt: skip


def test_a_key_with_a_dot_goes_into_the_object_that_is_there() -> None:
    words = after("""serve --attention-config '{"backend": "X"}'""", "flash_attention_version", 3)
    assert json.loads(words[2]) == {"backend": "X", "flash_attn_version": 3}
    assert after("serve", "flash_attention_version", 3) == ["serve", "--attention-config.flash_attn_version", "3"]


def test_an_object_that_does_not_read_is_refused() -> None:
    with pytest.raises(AskedWrongly, match="no object as JSON"):
        after("serve --speculative-config {broken", "speculative_tokens", 2, engine(num_speculative_tokens=6))


def test_a_variable_is_set_where_the_command_sets_it_and_else_in_the_environment() -> None:
    cpu = engine("cpu", **BLOCKS)
    assert after("env A=b VLLM_CPU_KVCACHE_SPACE=1 serve", "kv_cache_memory", 2048, cpu) == [
        "env", "A=b", "VLLM_CPU_KVCACHE_SPACE=2", "serve"]  # fmt: skip
    made = changed(Command(("serve",), (("A", "b"),)), (Setting("kv_cache_memory", 1025),), cpu)
    assert (made.argv, made.env) == (("serve",), (("A", "b"), ("VLLM_CPU_KVCACHE_SPACE", "2")))


def test_blocks_become_the_engines_bytes_and_need_to_know_how_large_one_is() -> None:
    assert after("serve", "kv_cache_memory", 100, engine(**BLOCKS)) == [
        "serve", "--kv-cache-memory-bytes", str(100 * 2**20)]  # fmt: skip
    with pytest.raises(CannotAnswer, match="how large a KV block is"):
        after("serve", "kv_cache_limit", 100)


@pytest.mark.parametrize("text", ["sh -c 'serve m'", "/bin/bash -lc 'serve m'", "nice bash -c 'serve m'"])
def test_a_command_inside_of_a_shells_text_is_refused(text: str) -> None:
    with pytest.raises(AskedWrongly, match="Give the command itself"):
        after(text, "max_running_requests", 64)


def test_what_clients_change_is_no_command() -> None:
    with pytest.raises(AskedWrongly, match="nothing this engine is started with"):
        after("serve", "variable_part_last", True)


def test_no_setting_changes_nothing() -> None:
    command = Command(("sh", "-c", "serve"))
    assert changed(command, (), engine()) == command


def test_a_secret_is_not_written_down() -> None:
    text = "env HF_TOKEN=a serve --api-key b --api_key=c --max-num-batched-tokens 64 --tokenizer d --hf-token e"
    command = shareable(Command(tuple(shlex.split(text)), (("X_API_KEY", "f"), ("SPACE", "1"))))
    assert " ".join(command.argv) == (
        "env HF_TOKEN=<secret> serve --api-key <secret> --api_key=<secret> --max-num-batched-tokens 64 --tokenizer d "
        "--hf-token <secret>")  # fmt: skip
    assert command.env == (("X_API_KEY", "<secret>"), ("SPACE", "1"))


PARTS = ("serve", "m", "--port 1", "--max-num-seqs=3", "--max_num_seqs 4")       # a flag that takes a value has one
plain = st.lists(st.sampled_from(PARTS), max_size=8).map(lambda parts: " ".join(parts).split())


@given(plain, st.integers(1, 4096), st.integers(1, 4096))
def test_the_last_value_stands_and_what_is_not_the_flag_stays(words: list[str], first: int, then: int) -> None:
    command = Command((*words, "--end"))
    once = changed(command, (Setting("max_running_requests", then),), engine())
    twice = changed(changed(command, (Setting("max_running_requests", first),), engine()),
                    (Setting("max_running_requests", then),), engine())  # fmt: skip
    assert once == twice
    assert [w for w in once.argv if w in ("serve", "m", "--port", "--end")] == [
        w for w in command.argv if w in ("serve", "m", "--port", "--end")]  # fmt: skip
