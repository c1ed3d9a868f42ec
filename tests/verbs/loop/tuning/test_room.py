from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pellucid.tune.memory import Room
from pellucid.verbs.loop.tuning.room import device_room, geometry_of, host_room, tree_bytes

MIB = 1 << 20


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    put(tmp_path / "proc", {
        "meminfo": "MemTotal: 8192 kB\nMemAvailable: 4096 kB\nHugePages_Total: 0\n", "self/cgroup": "0::/\n",
        "10/stat": "10 (a (b) c) S 1 10", "10/smaps_rollup": "0-1 ---p [rollup]\nRss: 9999 kB\nPss: 1024 kB\n",
        "11/stat": "11 (x) S 10 10", "11/smaps_rollup": "Pss: 2048 kB\n",
        "12/stat": "12 (y) S 1 12", "12/smaps_rollup": "Pss: 512 kB\n",
    })  # fmt: skip
    return tmp_path / "proc"


def test_without_a_limit_the_hosts_memory_counts(proc: Path, tmp_path: Path) -> None:
    put(tmp_path, {"cg/memory.max": "max\n", "cg/memory.current": "1\n"})
    assert host_room(None, proc, tmp_path / "cg") == Room("this host", 8 * MIB, 4 * MIB, None)


def test_the_narrowest_of_all_groups_above_counts(proc: Path, tmp_path: Path) -> None:
    (proc / "self/cgroup").write_text("0::/a/b\n")
    put(tmp_path / "cg", {
        "a/b/memory.max": "max", "a/b/memory.current": "5",
        "a/memory.max": f"{3 * MIB}", "a/memory.current": f"{2 * MIB}",
        "a/memory.stat": f"anon 7\ninactive_file {MIB}\n",
    })  # fmt: skip
    assert host_room(None, proc, tmp_path / "cg") == Room("this container", 3 * MIB, 2 * MIB, None)


def test_groups_of_version_1_count_too(proc: Path, tmp_path: Path) -> None:
    (proc / "self/cgroup").write_text("4:memory:/x\n3:cpu,cpuacct:/y\n0::/\n")
    put(tmp_path / "cg", {
        "memory/x/memory.limit_in_bytes": f"{6 * MIB}", "memory/x/memory.usage_in_bytes": f"{MIB}",
        "memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "1",
    })  # fmt: skip
    assert host_room(None, proc, tmp_path / "cg") == Room("this container", 6 * MIB, 4 * MIB, None)


def test_an_engine_is_all_of_its_processes_and_a_part_is_not_the_whole(proc: Path, tmp_path: Path) -> None:
    assert tree_bytes(10, proc) == 3 * MIB
    assert host_room(10, proc, tmp_path / "none").engine_bytes == 3 * MIB
    (proc / "11/smaps_rollup").unlink()
    assert tree_bytes(10, proc) is None
    assert tree_bytes(99, proc) is None


def test_this_machine_has_memory_and_this_process_some_of_it() -> None:
    room = host_room(os.getpid())
    assert room.total_bytes is not None and room.free_bytes is not None and room.engine_bytes is not None
    assert 0 < room.free_bytes <= room.total_bytes
    assert MIB < room.engine_bytes < room.total_bytes


def test_a_device_that_is_not_there_is_not_known() -> None:
    assert device_room(4711) == Room("device 4711", None, None, None)


def test_the_models_shape_is_read_from_its_folder_or_there_is_a_reason(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100}  # fmt: skip
    put(tmp_path, {"m/config.json": json.dumps(config), "n/config.json": "{", "o/config.json": "[]",
                   "p/config.json": '{"model_type": "unheard_of"}'})  # fmt: skip
    found, reason = geometry_of(str(tmp_path / "m"))
    assert found is not None and (found.hidden, reason) == (64, "")
    for name, says in (("q", "No such file"), ("n", "config.json: "), ("o", "no object"), ("p", "unheard_of")):
        none, reason = geometry_of(str(tmp_path / name))
        assert none is None and says in reason
