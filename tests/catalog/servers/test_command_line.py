"""An engine's command line is recognised, read and changed in the ways people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.catalog.servers.command_line import (
    command_lines,
    devices_count,
    model,
    put,
    understood,
    value,
    without,
)
from pellucid.core.errors import AskedWrongly

MODULE = ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m")
VLLM = command_lines()["vllm"]


@pytest.mark.parametrize("words", [
    MODULE, ("vllm", "serve", "m"), ("/opt/venv/bin/vllm", "serve", "m"), ("env", "A=1", "vllm", "serve", "m"),
])  # fmt: skip
def test_an_engine_is_recognised_by_its_program_or_its_module(words: tuple[str, ...]) -> None:
    assert understood(words).engine == "vllm"


@pytest.mark.parametrize("words", [("sh", "-c", "vllm serve m"), ("python", "vllm_like.py"), ()])
def test_what_is_not_there_word_by_word_is_no_engine(words: tuple[str, ...]) -> None:
    with pytest.raises(AskedWrongly, match="word by word"):
        understood(words)


@pytest.mark.parametrize("words", [
    ("--gpu-memory-utilization", "0.5"), ("--gpu-memory-utilization=0.5",), ("--gpu_memory_utilization", "0.5"),
    ("--gpu_memory_utilization=0.9", "--gpu-memory-utilization", "0.5"),
])  # fmt: skip
def test_a_flag_is_found_in_all_ways_to_write_it_and_the_last_one_counts(words: tuple[str, ...]) -> None:
    assert value((*MODULE, *words), VLLM.share) == "0.5"
    assert put((*MODULE, *words), VLLM.share, "0.2") == (*MODULE, "--gpu-memory-utilization", "0.2")
    assert without((*MODULE, *words, "--x"), VLLM.share) == (*MODULE, "--x")


@pytest.mark.parametrize(("words", "name"), [
    (MODULE, "m"), (("vllm", "serve", "m", "--port", "1"), "m"), (("vllm", "serve", "--model", "m"), "m"),
    (("vllm", "serve", "--port", "1"), None), (("vllm", "serve"), None),
])  # fmt: skip
def test_the_model_stands_behind_its_flag_or_behind_the_subcommand(words: tuple[str, ...], name: str | None) -> None:
    assert model(words, VLLM) == name


def test_devices_of_an_engine_are_the_product_of_its_parallelisms() -> None:
    assert devices_count(MODULE, VLLM) == 1
    assert devices_count((*MODULE, "-tp", "4", "--pipeline_parallel_size=2"), VLLM) == 8
    with pytest.raises(AskedWrongly, match="--tensor-parallel-size many"):
        devices_count((*MODULE, "-tp", "many"), VLLM)


WORDS = st.lists(st.sampled_from(["--port", "--port=1", "--host", "a", "-tp", "2", "--x", "serve"]), max_size=8)


@given(WORDS, st.integers(1, 65535))
def test_what_was_put_is_what_counts_and_putting_it_again_changes_nothing(words: list[str], port: int) -> None:
    once = put(words, VLLM.port, str(port))
    assert value(once, VLLM.port) == str(port)
    assert put(once, VLLM.port, str(port)) == once
    assert value(without(words, VLLM.port), VLLM.port) is None
