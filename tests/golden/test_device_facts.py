"""The committed table of facts beside what the recordings of 0.24 on H200s say of themselves.

A recording has a row for each change: `worker.times` may be visible, then shed because the probe's cost was above its
budget, then visible again. That is no difference from a table that says visible; a fact that is blind throughout is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from pellucid.catalog.load import facts
from tests.golden.test_device import FINDS, golden

pytestmark = pytest.mark.slow

MINOR = "0.24"
# Reasons for which a fact that the engine shows is blind in some process, or for some time.
GIVES_WAY = "the probe's cost was above its budget"
SAID_BY_ANOTHER = "the first rank of its tensor-parallel group reports the same tokens"
TURNED_OFF = {"experts-default": {"prefix caching is off"}, "experts-tuned": {"prefix caching is off"}}


@cache
def recorded(name: str) -> list[dict[str, Any]]:
    return golden(name).rows("SELECT fact, role, state, reason, engine_version FROM facts")


def stated(basis: str) -> dict[str, str]:
    """Fact → state, as the table has them of the device."""
    return {name: s.state for name, f in facts().items() for s in f.seen
            if (s.version, s.device, s.basis) == (MINOR, "cuda", basis)}  # fmt: skip


@pytest.mark.parametrize("name", FINDS)
def test_what_a_recording_shows_and_what_it_is_blind_to_is_what_the_table_says(name: str) -> None:
    rows, table = recorded(name), stated("run")
    visible = {r["fact"] for r in rows if r["state"] == "visible"}
    states = {r["fact"]: "visible" if r["fact"] in visible else "blind" for r in rows}
    assert states == {fact: table.get(fact) for fact in states}
    assert len(states) >= len(table) - 3     # the first of them knew three facts fewer
    assert {r["engine_version"].rsplit(".", 1)[0] for r in rows if r["role"] != "recorder"} == {MINOR}


@pytest.mark.parametrize("name", FINDS)
def test_what_is_visible_is_blind_only_for_a_while_or_where_another_rank_says_it(name: str) -> None:
    visible = {fact for fact, state in stated("run").items() if state == "visible"}
    reasons = {r["reason"] for r in recorded(name) if r["state"] == "blind" and r["fact"] in visible}
    assert {r for r in reasons if not r.endswith(GIVES_WAY)} <= {SAID_BY_ANOTHER} | TURNED_OFF.get(name, set())


def test_of_what_no_recording_speaks_the_table_has_no_more_than_names_in_the_wheel() -> None:
    spoken_of = {r["fact"] for name in FINDS for r in recorded(name)}
    assert spoken_of == stated("run").keys()
    assert spoken_of.isdisjoint(stated("signatures"))
