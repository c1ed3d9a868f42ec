"""Recordings of real engines (`make_golden.py`): each rule's bottleneck, a near miss of it, and a healthy one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import FOUND
from pellucid.diagnose.run import Report, diagnose
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import broken
from tools.make_golden import MOST_BYTES
from tools.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
KEPT = list(SCENARIOS)
WITHOUT_SCENARIO = {
    # They judge metrics pages of engines without the probe; no recording of a real one that has the fault is kept yet.
    "fleet.replica_odd", "kv.cache_full", "latency.queue_dominates", "queue.waiting_with_kv_free", "server.errors",
    "spec.low_acceptance",
    # It holds an engine's counters against its core; those of the engines here are right but for what is known.
    "data.counters_disagree",
}
# They judge kernel traces: tests/diagnose/test_kernel_*_rules.py have a real one for each.
OF_CAPTURES = {r.id for r in all_rules() if r.asked_of == "captures"}  # fmt: skip


@cache
def golden(name: str) -> RunReader:
    run = open_run(HERE / name)
    assert run.one("SELECT count(*) AS n FROM steps")["n"] > 50, f"no recording of {name}: run tools/make_golden.py"
    return run


@cache
def report(name: str) -> Report:
    return diagnose(golden(name))


@pytest.mark.parametrize("name", KEPT)
def test_exactly_what_was_made_is_found(name: str) -> None:
    found = {r.rule.id for r in report(name).results if r.verdict.kind == FOUND}
    assert found == ({SCENARIOS[name].finds} - {None})


@pytest.mark.parametrize("name", KEPT)
def test_no_rule_is_blind_or_broken(name: str) -> None:
    kinds = {r.rule.id: r.verdict for r in report(name).results}
    assert {rule: v for rule, v in kinds.items() if v.kind in ("broken", "blind")} == {}


def test_every_scenario_is_kept_and_nothing_else() -> None:
    assert {p.name for p in HERE.iterdir() if (p / "run.json").exists()} == set(KEPT)
    assert {r.id for r in all_rules()} - {s.finds for s in SCENARIOS.values()} == WITHOUT_SCENARIO | OF_CAPTURES


@pytest.mark.parametrize("name", KEPT)
def test_it_adds_up(name: str) -> None:
    assert broken(golden(name)) == {}


@pytest.mark.parametrize("rule", [r.id for r in all_rules() if r.id not in WITHOUT_SCENARIO | OF_CAPTURES])
def test_every_rule_has_a_real_found_and_a_real_near_miss(rule: str) -> None:
    assert [s.name for s in SCENARIOS.values() if s.finds == rule], "no recording in which it is found"
    assert [s.name for s in SCENARIOS.values() if s.near_miss == rule], "no recording that nearly is one"


@pytest.mark.parametrize("name", KEPT)
def test_recordings_are_small_and_tell_nothing_of_the_machine(name: str) -> None:
    files = list((HERE / name).iterdir())
    assert sum(f.stat().st_size for f in files) < MOST_BYTES
    paths = golden(name).rows("SELECT model, config_json FROM sources WHERE model LIKE '/%'")
    assert paths == []
