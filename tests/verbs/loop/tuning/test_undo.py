"""What a finished session kept, taken out of it again; the command of before, and the log that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.clock import anchor_now
from pellucid.core.errors import CannotAnswer
from pellucid.tune import events as e
from pellucid.verbs.loop.audit import audit
from pellucid.verbs.loop.sessions import writing
from pellucid.verbs.loop.trials import trials
from pellucid.verbs.loop.tuning.undo import undo
from tests.tune.session import ALLOWED, STARTED, better, fidelity, proposal, start


def session(home: Path, *more: e.AnyEvent) -> str:
    """One that kept 64 requests at once."""
    events = (
        STARTED, e.Observed("r", ""), e.Diagnosed("", []), e.Proposed((proposal(("max_running_requests", 64)),), True),
        ALLOWED, start(1), better(1), fidelity(1), e.Kept(1, ""), *more,
    )  # fmt: skip
    with writing(home, "20261130-091500-a1b2", anchor_now) as (journal, _):
        for event in events:
            journal.record(event)
        return journal.folder.name


def test_undo_gives_the_command_of_before_and_is_in_the_log(tmp_path: Path) -> None:
    name = session(tmp_path, e.Finished("done", "kept"))
    (before,) = trials(tmp_path, None).rows
    undone = undo(tmp_path, None)
    assert (undone.session, undone.candidate, undone.command) == (name, "max_running_requests=64", STARTED.command)
    (row,) = trials(tmp_path, None).rows
    assert (row["state"], row["duration_ns"]) == ("undone", before["duration_ns"])
    found = audit(tmp_path, None)
    assert (found.breaks, found.rows[-1]["kind"]) == ((), "undone")
    with pytest.raises(CannotAnswer, match="nothing is kept"):
        undo(tmp_path, None)


def test_a_session_that_has_not_ended_is_not_undone(tmp_path: Path) -> None:
    name = session(tmp_path)
    with pytest.raises(CannotAnswer, match=f"tune --resume {name}"):
        undo(tmp_path, name)
