"""Captures of a real engine that serves: exactly the steps asked for, joined to the run, and the engine goes on."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pellucid.core.errors import CannotAnswer, Failed
from pellucid.core.run import read_info
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from pellucid.verbs.captures.ask import Wish, only_one
from pellucid.verbs.captures.profile import Taken, profile
from tests.engine.fact_table import committed_facts
from tools.recording import Served, pellucid, serve
from tools.scenarios import CONTEXT, GEMMA, user
from tools.traffic.prompts import story

STEPS = 12


@dataclass(slots=True)
class Profiled:
    run: RunReader
    taken: list[Taken]
    replies: list[Reply]
    shown: str


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Profiled]:
    home = tmp_path_factory.mktemp("profiled")
    served = serve(GEMMA, (*CONTEXT, "--max-num-seqs", "8"), home, home / "engine.log")
    replies: list[Reply] = []
    try:
        with pytest.raises(CannotAnswer, match="idle"):
            profile(home, None, Wish(2, within_s=1.0), lambda: False)
        traffic = threading.Thread(target=lambda: replies.extend(send(served.url, served.model, asks())))
        traffic.start()
        taken = [profile(home, None, Wish(STEPS), lambda: False, home / "kept") for _ in range(2)]
        one_at_a_time(served)
        shown = subprocess.run(pellucid("profile", "--steps", "3", "--shapes"), capture_output=True, text=True,
                               env={**os.environ, "PELLUCID_HOME": str(home)}, check=True).stdout  # fmt: skip
        traffic.join()
    finally:
        served.end()
    assert served.stubborn == []
    yield Profiled(open_run(served.folder()), taken, replies, shown)


def asks() -> list[Ask]:
    pick = random.Random(3)
    out: list[Ask] = []
    for _ in range(6):
        user(out, 6, 0.0, lambda: Ask(0, story(pick, 40), 100, "story"), pick.uniform(0, 0.5))
    return out


def one_at_a_time(served: Served) -> None:
    """Who asks while another capture is under way is told so."""
    rings = Path(read_info(served.folder()).source)
    with only_one(rings), pytest.raises(Failed, match="under way"):
        profile(served.home, None, Wish(3), lambda: False)


def test_exactly_the_steps_asked_for_are_captured(profiled: Profiled) -> None:
    assert [t.steps_count for t in profiled.taken] == [STEPS, STEPS]
    rows = profiled.run.rows("""
        SELECT capture, count(*) AS n, max(step) - min(step) AS span FROM capture_steps GROUP BY ALL""")
    assert {(r["n"], r["span"]) for r in rows} == {(STEPS, STEPS - 1), (3, 2)}


def test_captured_steps_are_the_runs_own(profiled: Profiled) -> None:
    """Same numbers, same batches; what ran lies within the step, on the run's own clock."""
    rows = profiled.run.rows("""
        SELECT c.step, c.phase, c.phase_basis, c.prefill_tokens = s.prefill_tokens AS prefills,
               c.decode_tokens = s.decode_tokens AS decodes, c.start_ns >= s.start_ns AND c.end_ns <= s.end_ns AS inside
        FROM capture_steps c JOIN steps s USING (step)""")
    assert len(rows) == 2 * STEPS + 3
    assert {(r["phase_basis"], r["prefills"], r["decodes"], r["inside"]) for r in rows} == {("run", True, True, True)}
    assert {r["phase"] for r in rows} <= {"prefill", "decode", "mixed"}


def test_operators_stand_for_kernels_where_there_is_no_device(profiled: Profiled) -> None:
    kinds = profiled.run.rows("SELECT DISTINCT kind, device_index FROM kernels")
    assert [(r["kind"], r["device_index"]) for r in kinds] == [("op", None)]
    classes = {r["class"] for r in profiled.run.rows("SELECT DISTINCT class FROM kernels")}
    assert {"gemm", "attention", "kv_cache"} <= classes
    share = profiled.run.one("""
        SELECT sum(duration_ns) FILTER (step IS NOT NULL) / sum(duration_ns) AS joined,
               sum(duration_ns) FILTER (class = 'unknown') / sum(duration_ns) AS unknown FROM kernels""")
    assert share["joined"] > 0.98
    assert share["unknown"] < 0.2


def test_what_a_capture_cost_is_recorded(profiled: Profiled) -> None:
    for row in profiled.run.rows("SELECT * FROM captures"):
        assert row["start_cost_ns"] > 0
        assert row["stop_cost_ns"] > 0
        assert row["export_ns"] > 0
        assert row["trace_bytes"] > 100_000
        assert row["longest_gap_ns"] >= row["stop_cost_ns"] * 0.5


def test_the_engine_served_everybody(profiled: Profiled) -> None:
    assert {reply.finish_reason for reply in profiled.replies} == {"length"}
    assert len(profiled.replies) == 36


def test_nothing_is_left_in_the_probes_folder_and_the_traces_are_kept_where_asked(profiled: Profiled) -> None:
    assert all(path.stat().st_size > 100_000 for taken in profiled.taken for path in taken.traces)
    assert "3 steps" in profiled.shown
    assert "held the engine up for" in profiled.shown


def test_shapes_are_there_when_they_are_asked_for_and_work_is_known_from_the_models_build(profiled: Profiled) -> None:
    rows = profiled.run.rows("""
        SELECT capture, count(shapes) > 0 AS shapes, count(flop) > 0 AS work FROM kernels GROUP BY capture""")
    assert sorted((r["shapes"], r["work"]) for r in rows) == [(False, True), (False, True), (True, True)]


def test_the_fact_is_that_of_the_committed_table(profiled: Profiled) -> None:
    seen = profiled.run.rows("""
        SELECT DISTINCT fact, role, state, engine_version FROM facts WHERE fact = 'worker.captures'""")
    (version,) = {r["engine_version"] for r in seen}
    assert {(r["fact"], r["role"], r["state"]) for r in seen} <= committed_facts(version, "cpu")


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(profiled: Profiled, law: str) -> None:
    assert broken(profiled.run, {law: LAWS[law]}) == {}
