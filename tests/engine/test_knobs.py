"""The catalog's spellings and the argument parsers of the engines that are here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.catalog.load import knobs
from pellucid.collect.vllm.knobs import held
from pellucid.collect.vllm.plan import parser
from tools.real_engine import OLDER, PYTHON


@pytest.fixture(scope="module", params=[PYTHON, OLDER], ids=["0.32", "0.28"])
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    python: Path = request.param
    return parser(str(python))


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def test_every_spelling_is_there_from_the_version_on_that_the_catalog_says(told: dict[str, Any]) -> None:
    version = minor(told["engine_version"])
    since = {(n, s.flag or s.env): s.since for n, k in knobs().items() for s in k.spellings}
    seen = {(h.knob, h.spelling): h.there for h in held(told)}
    assert seen
    assert seen == {key: not since[key] or version >= minor(since[key]) for key in seen}


def test_every_choice_is_one_that_the_parser_lists(told: dict[str, Any]) -> None:
    assert {h.knob: h.lost_choices for h in held(told) if h.lost_choices} == {}


def test_types_and_defaults_are_the_parsers(told: dict[str, Any]) -> None:
    seen = {h.knob: h for h in held(told)}
    assert (seen["max_running_requests"].type, seen["max_running_requests"].default) == ("int", None)
    assert (seen["long_prefill_threshold"].default, seen["scheduling_policy"].choices) == (0, ("fcfs", "priority"))


def test_a_spelling_that_is_not_there_is_noticed(told: dict[str, Any]) -> None:
    flags = {name: flag for name, flag in told["flags"].items() if name != "--max-num-seqs"}
    changed = {**told, "flags": flags, "variables": []}
    faults = {h.knob: h.fault for h in held(changed) if not h.there}
    assert faults["max_running_requests"] == f"{told['engine_version']} has no --max-num-seqs"
    assert "does not read VLLM_CPU" in faults["reserved_cpu_cores"]
