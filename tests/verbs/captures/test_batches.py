"""What a run tells of captured steps: when no request was there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.table import rows as table
from pellucid.store.read import RunReader, open_run
from pellucid.testing.build import build_run
from pellucid.verbs.captures.batches import quiet_of
from tests.golden.test_device import golden

STEPS = """
    process  step  start_ns  end_ns  host_gap_ns  idle_ns
    core     1     100       110     -            -
    core     2     112       120     2            -
    core     3     200       210     -            80
    core     4     211       220     1            -"""


def run_of(folder: Path, steps: str) -> RunReader:
    return open_run(build_run(folder, {"steps": table(steps)}))


def test_no_request_is_there_from_a_steps_end_to_the_next_ones_start(tmp_path: Path) -> None:
    run = run_of(tmp_path, STEPS)
    assert quiet_of(run, [1, 2, 3, 4]) == [(120, 200)]
    assert quiet_of(run, [1, 2]) == []
    assert quiet_of(run, [3, 4]) == [(120, 200)]


@pytest.mark.parametrize(("steps", "asked"), [
    (STEPS, [2, 3, 4, 5]),                                          # the record lacks a step
    (STEPS, []), (STEPS.replace("211       220     1  ", "211       220     -  "), [3, 4]),      # or what came before
    (STEPS + "\n    other    1     100       110     -            -", [1, 2]),                   # two engine cores
])  # fmt: skip
def test_what_the_record_does_not_tell_is_not_known(tmp_path: Path, steps: str, asked: list[int]) -> None:
    assert quiet_of(run_of(tmp_path, steps), asked) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moe-uniform", "moe-skewed", "neighbour", "sampling", "eager"])
def test_engines_under_load_always_had_something_to_do(name: str) -> None:
    run = golden(name)
    captures = run.rows("SELECT capture, list(DISTINCT step) AS steps FROM capture_steps GROUP BY capture")
    assert captures
    assert [quiet_of(run, row["steps"]) for row in captures] == [[]] * len(captures)
