"""Two engines get equal shares of a machine, apart where it has enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.catalog.servers.command_line import command_lines, value
from pellucid.core.errors import AskedWrongly
from pellucid.verbs.loop.trial.arms.machine import Machine, cores
from pellucid.verbs.loop.trial.arms.memory import fault, needs_bytes, weights_bytes
from pellucid.verbs.loop.trial.arms.place import placed, places

VLLM = command_lines()["vllm"]
WORDS = ("vllm", "serve", "m")
GIB = 2**30


def machine(cores: int = 4, devices: int = 0, available_gib: int = 20) -> Machine:
    names = tuple(str(i) for i in range(devices))
    return Machine("x86_64", tuple(range(cores)), names, names, 24 * GIB, available_gib * GIB)


@pytest.mark.parametrize(("count", "first", "second"), [
    (2, "0", "1"), (4, "0,1", "2,3"), (5, "0,1", "2,3"), (1, "0", "0"),
])  # fmt: skip
def test_cores_are_halved_and_an_odd_one_is_nobodys(count: int, first: str, second: str) -> None:
    a, b = places(machine(cores=count), VLLM, WORDS, {})
    assert (a.env, b.env) == ({"VLLM_CPU_OMP_THREADS_BIND": first}, {"VLLM_CPU_OMP_THREADS_BIND": second})


def test_a_share_of_memory_is_halved_and_is_no_more_than_there_is() -> None:
    a, b = places(machine(available_gib=12), VLLM, WORDS, {})
    assert a.memory_ratio == b.memory_ratio == 0.225      # 0.9 · 12 / 24, half of it
    a, _ = places(machine(available_gib=24), VLLM, (*WORDS, "--gpu-memory-utilization", "0.5"), {})
    assert value(placed(WORDS, a, VLLM), VLLM.share) == "0.25"


@pytest.mark.parametrize(("words", "environ"), [
    ((*WORDS, "--kv-cache-memory-bytes", "1000"), {}), (WORDS, {"VLLM_CPU_KVCACHE_SPACE": "1"}),
])  # fmt: skip
def test_a_cache_of_a_given_size_stays_as_it_is(words: tuple[str, ...], environ: dict[str, str]) -> None:
    a, b = places(machine(), VLLM, words, environ)
    assert (a.memory_ratio, placed(words, b, VLLM)) == (None, words)


def test_devices_are_apart_where_there_are_enough_and_shared_by_half_where_not() -> None:
    a, b = places(machine(devices=4), VLLM, (*WORDS, "-tp", "2"), {})
    assert (a.env["CUDA_VISIBLE_DEVICES"], b.env["CUDA_VISIBLE_DEVICES"], a.memory_ratio) == ("0,1", "2,3", None)
    a, b = places(machine(devices=1), VLLM, WORDS, {})
    assert (a.env["CUDA_VISIBLE_DEVICES"], b.env["CUDA_VISIBLE_DEVICES"], a.memory_ratio) == ("0", "0", 0.46)
    assert b.name == "device 0, shared"
    with pytest.raises(AskedWrongly, match="takes 2 devices, and 1 are visible"):
        places(machine(devices=1), VLLM, (*WORDS, "-tp", "2"), {})


def test_one_hardware_thread_of_each_core_is_taken(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        (tmp_path / f"cpu{cpu}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}/topology/thread_siblings_list").write_text(f"{siblings}\n")
    assert cores([0, 1, 2, 3], tmp_path) == (0, 1)
    assert cores([0, 2], tmp_path) == (0, 2)       # of one core: then two threads have to do
    assert cores([0, 9], tmp_path) == (0, 9)       # a machine that does not tell


def test_what_two_engines_need_is_held_against_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    words = ("vllm", "serve", str(tmp_path))
    one = needs_bytes(words, {"VLLM_CPU_KVCACHE_SPACE": "8"}, VLLM, machine())
    assert one == 1000 + 8 * GIB + VLLM.process_bytes
    assert fault((one, one), machine(available_gib=24)) == ""
    assert "need 11.4 GiB and 11.4 GiB of memory, and 20.0 GiB is available" in fault((one, one), machine())
    assert needs_bytes((*words, "--gpu-memory-utilization", "0.25"), {}, VLLM, machine()) == 6 * GIB
    assert fault((None, one), machine(available_gib=1)) == ""      # not known is not refused
    assert weights_bytes("somebody/model-of-a-hub") == 0
