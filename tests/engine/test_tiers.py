"""The engine's own manager of an outer tier, watched by the probe: no device is needed for what it decides."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pellucid_probe import kv_records
from pellucid_probe.ring import RingReader

from pellucid.collect.kv.lives import KvLives
from pellucid.store.schema import TABLES
from tools.real_engine import OLDER, PYTHON, ROOT

# Room for four: a and b are written for r1, a comes back for r2, c and d fail once and are written for r2, then e and f
# are written for r3, for which the manager makes room.
PROGRAM = """
import os, sys
from types import SimpleNamespace as Made
from pellucid_probe.process import Process
from pellucid_probe.vllm.kv.tiers import FACT, Tiers
from vllm.v1.kv_offload.base import ReqContext, make_offload_key
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

process = Process(os.environ["PELLUCID_DIR"], "engine_core", "vllm", "0")
numbers = {"r1": 1, "r2": 2, "r3": 3}
tiers = Tiers(process, lambda name: numbers.get(name, 0))
tiers.attach(Made(connector=None))
assert FACT not in process.facts
tiers.attach(Made(connector=Made(connector_scheduler=None)))
assert process.facts[FACT].state == "blind", process.facts[FACT].state
manager = CPUOffloadingManager(4)
tiers.attach(Made(connector=Made(connector_scheduler=Made(manager=manager))))
assert process.facts[FACT].state == "visible", process.facts[FACT].reason

key = {name: make_offload_key(name.encode() * 32, 1) for name in "abcdef"}
asks = {name: ReqContext(req_id=name) for name in ("r1", "r2", "r3")}
def store(request, names, good=True):
    out = manager.prepare_store([key[n] for n in names], asks[request])
    manager.complete_store(out.keys_to_store, asks[request], good)
store("r1", "ab")
manager.prepare_load([key["a"]], asks["r2"])
manager.complete_load([key["a"]], asks["r2"])
store("r2", "cd", False)
store("r2", "cd")
store("r2", "ab")           # are there
store("r3", "ef")
if sys.argv[1] == "reset":
    manager.reset_cache()
process.outbox.flush()
assert process.errors_count() == 0
print(process.name)
"""


def told(python: Path, how: str) -> dict[str, list[dict[str, Any]]]:
    """The recorder's rows, by table."""
    rows: dict[str, list[dict[str, Any]]] = {"kv_residency": [], "kv_onboards": []}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        env = {**os.environ, "PELLUCID_DIR": rings, "PYTHONPATH": str(ROOT / "probe" / "src"), "PELLUCID_OFF": "1"}
        done = subprocess.run([str(python), "-c", PROGRAM, how], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        reader = RingReader(str(Path(rings) / f"{done.stdout.split()[-1]}.ring"))

        def row(table: str, values: tuple[Any, ...]) -> None:
            rows[table].append(dict(zip(TABLES[table].names(), values, strict=True)))

        lives = KvLives(dict, row, b"k" * 32)
        for kind, payload in reader.poll():
            if kind == kv_records.KV_TIER:
                lives.take(kind, payload)
        lives.end()
        reader.close()
    return rows


@pytest.fixture(scope="module", params=[PYTHON, OLDER], ids=["0.32", "0.28"])
def rows(request: pytest.FixtureRequest) -> Iterator[dict[str, list[dict[str, Any]]]]:
    yield told(request.param, "go on")


def test_what_came_back_and_for_whom(rows: dict[str, list[dict[str, Any]]]) -> None:
    (one,) = rows["kv_onboards"]
    assert (one["request"], one["tier"], one["kv_group"]) == (2, "cpu", 1)
    assert one["age_ns"] == one["idle_ns"] > 0


def test_each_block_has_one_life(rows: dict[str, list[dict[str, Any]]]) -> None:
    lives = rows["kv_residency"]
    evicted = [life for life in lives if life["removed_reason"] == "evicted"]
    there = [life for life in lives if life["removed_reason"] is None]
    assert len(evicted) == 2 and {life["removed_by"] for life in evicted} == {3}
    assert all(life["removed_ns"] >= life["last_used_ns"] >= life["cached_ns"] for life in evicted)
    assert sorted(life["request"] for life in (*evicted, *there)) == [1, 1, 2, 2, 3, 3]
    assert sum(life["hits_count"] for life in lives) == 1
    assert len({life["block_hash"] for life in lives}) == 6


def test_a_reset_ends_all() -> None:
    lives = told(PYTHON, "reset")["kv_residency"]
    assert sorted(str(life["removed_reason"]) for life in lives) == ["cleared"] * 4 + ["evicted"] * 2
