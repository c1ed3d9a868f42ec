"""Blocks and tokens of KV, beside what real engines made of the memory they were given."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from pellucid.catalog.devices.gpus import devices
from pellucid.catalog.devices.seen import Reserve, seen
from pellucid.physics.config.read import read
from pellucid.sim.paper.fit import Fit, Room, Span, fit, room
from pellucid.sim.paper.held import KvHeld, kv_on
from pellucid.sim.paper.placement import Placement, Way
from tests.sim.paper.shapes import RECORDED

GOLDEN = Path(__file__).parents[2] / "golden"
WANTED = ("model", "num_gpu_blocks", "block_size", "kv_cache_bytes", "kv_cache_memory_bytes", "tensor_parallel_size")


def recorded() -> list[tuple[str, dict[str, object]]]:
    """Of every recording, what its engine core says of KV; recordings that lack any of it are left out."""
    found: dict[str, dict[str, object]] = {}
    for path in sorted((*GOLDEN.glob("*/sources-*.parquet"), *GOLDEN.glob("device/*/sources-*.parquet"))):
        for (text,) in duckdb.execute("SELECT config_json FROM read_parquet(?)", [str(path)]).fetchall():
            said = json.loads(text or "{}")
            if all(said.get(key) is not None for key in WANTED):
                found[path.parent.name] = said
    return list(found.items())


RECORDINGS = recorded()


def block_bytes(said: dict[str, object]) -> float:
    geometry = read(RECORDED[str(said["model"]).rsplit("/", 1)[-1]])
    way = Way(Placement(int(str(said["tensor_parallel_size"]))), 8)
    return kv_on(geometry, way, int(str(said["block_size"]))).block_bytes


def test_there_are_recordings_to_compare_with() -> None:
    assert len(RECORDINGS) >= 30
    assert {"eager", "moe-skewed", "moe-uniform", "neighbour", "sampling"} <= dict(RECORDINGS).keys()


@pytest.mark.parametrize(("name", "said"), RECORDINGS, ids=[name for name, _ in RECORDINGS])
def test_a_block_is_as_large_as_the_engines(name: str, said: dict[str, object]) -> None:
    assert block_bytes(said) == int(str(said["kv_cache_bytes"])) / int(str(said["num_gpu_blocks"])), name


FREE = [(name, said) for name, said in RECORDINGS if said.get("num_gpu_blocks_override") is None]


@pytest.mark.parametrize(("name", "said"), FREE, ids=[name for name, _ in FREE])
def test_blocks_are_within_one_percent_of_the_engines(name: str, said: dict[str, object]) -> None:
    given = float(str(said["kv_cache_memory_bytes"]))
    held = KvHeld(1.0, block_bytes(said), 16, 0.0, 1.0)
    found = fit(0.0, 0.0, held, 1.0, Room(given, 1.0, True), Span(0, 0)).blocks_count
    assert found is not None
    assert found.high == pytest.approx(int(str(said["num_gpu_blocks"])), rel=0.01), name


def fit_of(row: Reserve, reserve: Span) -> Fit:
    held = KvHeld(131_072.0, 16 * 131_072.0, 16, 0.0, 1.0)
    space = Room(row.total_bytes, row.share_ratio, True)
    return fit(row.weights_bytes, row.activations_bytes, held, 131_072.0, space, reserve)


@pytest.mark.parametrize("row", seen().reserves, ids=lambda r: r.model)
def test_the_reserve_is_what_is_left_of_an_engines_share(row: Reserve) -> None:
    found = fit_of(row, Span(row.reserve_bytes, row.reserve_bytes))
    assert found.kv_bytes.high == pytest.approx(row.kv_bytes, rel=1e-6)
    assert row.reserve_bytes > 0


@pytest.mark.parametrize("row", seen().reserves, ids=lambda r: r.model)
def test_the_span_of_reserves_holds_what_each_engine_found(row: Reserve) -> None:
    shares = [r.of_device_ratio for r in seen().reserves]
    found = fit_of(row, Span(min(shares) * row.total_bytes, max(shares) * row.total_bytes)).kv_bytes
    assert found.low <= row.kv_bytes * 1.0001
    assert row.kv_bytes <= found.high * 1.0001


def test_what_does_not_fit_says_by_how_much() -> None:
    held = KvHeld(1000.0, 16_000.0, 16, 0.0, 1.0)
    found = fit(80e9, 1e9, held, 1e9, Room(80e9, 0.9, True), Span(1e9, 4e9))
    assert (found.fits, found.surely, found.missing_bytes, found.kv_bytes.high) == (False, False, 10e9, 0)
    perhaps = fit(68e9, 1e9, held, 1e9, Room(80e9, 0.9, True), Span(1e9, 4e9))
    assert (perhaps.fits, perhaps.surely, perhaps.missing_bytes) == (True, False, 0)


def test_a_device_whose_driver_nobody_asked_has_the_data_sheets_memory() -> None:
    reported, sheet = room(devices()["h200"], 0.5), room(devices()["mi355x"], 0.5)
    assert reported is not None
    assert sheet is not None
    assert (reported.reported, sheet.reported, sheet.size_bytes) == (True, False, 144e9)
