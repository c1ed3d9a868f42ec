"""What a look of `top` says about time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.table import rows as table
from pellucid.core.units import S_NS
from pellucid.store.write import Limits, RunWriter
from pellucid.testing.build import append_rows
from pellucid.verbs.watch.top import Top

pytestmark = pytest.mark.slow

TABLES = {
    "sources": table("""process  anchor_mono_ns  anchor_wall_ns
                        core-1   1000000000      1700000000000000000"""),
    "steps": table("""process  step  start_ns    end_ns
                      core-1   1     2000000000  3000000000"""),
}
MONO_NS, WALL_NS = 7 * S_NS, 1_700_000_000 * S_NS + 6 * S_NS      # four seconds after the step's end, on both


@pytest.mark.parametrize(("stepped_ns", "ended_ns"), [(0, 4 * S_NS), (3600 * S_NS, 3604 * S_NS), (-3600 * S_NS, None)])
def test_while_recording_a_wall_clock_that_is_set_changes_no_age(
    tmp_path: Path, stepped_ns: int, ended_ns: int | None
) -> None:
    """Afterwards the wall clock is all there is; an age below zero is not known."""
    writer = RunWriter(tmp_path, Limits(), lambda: MONO_NS)
    append_rows(writer, TABLES)
    writer.flush()
    top = Top(tmp_path, clock=lambda: MONO_NS, wall=lambda: WALL_NS + stepped_ns)
    assert (top.look()["state"], top.look()["age_ns"]) == ("recording", 4 * S_NS)
    writer.close()
    assert (top.look()["state"], top.look()["age_ns"]) == ("complete", ended_ns)
