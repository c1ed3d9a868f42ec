"""`pellucid undo`: what was kept last, taken out again; the command of before.

    undo(home, None)      Undone(session="2026…", trial=2, candidate="max_running_requests=64", command=("python", …))

Nothing runs that would have to be stopped: a session's engines ended with it, and how an engine that serves is started
is its owner's. The decision is in the session's audit log, like the one before it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.core.clock import anchor_now
from pellucid.core.errors import CannotAnswer
from pellucid.tune import events as e
from pellucid.tune.space import words
from pellucid.tune.state import State, fold
from pellucid.verbs.loop.sessions import find_session, read_session, session_folders, writing


@dataclass(frozen=True, slots=True)
class Undone:
    session: str
    trial: int
    candidate: str
    command: tuple[str, ...]       # to start the engine with, as before that trial

    def json(self) -> dict[str, Any]:
        return asdict(self)


def undo(home: Path, wanted: str | None) -> Undone:
    """Raises CannotAnswer where nothing is kept, or the session has not ended."""
    folder = find_session(home, wanted) if wanted else _kept(home)
    with writing(home, folder.name, anchor_now) as (journal, _):
        state = journal.state()
        if state.phase != "finished":
            raise CannotAnswer(f"session {folder.name} has not ended. Try: pellucid tune --resume {folder.name}")
        kept = [t for t in state.trials if t.end == "kept"]
        if not kept:
            raise CannotAnswer(f"session {folder.name} keeps nothing. Try: pellucid trials")
        last = kept[-1]
        command = kept[-2].started.command if len(kept) > 1 else _given(state)
        event = e.Undone(last.number, f"start the engine so: {' '.join(command)}")
        fold(state, event, 0)
        journal.record(event)
    return Undone(folder.name, last.number, words(last.proposal.candidate), command)


def _given(state: State) -> tuple[str, ...]:
    return state.started.command if state.started else ()


def _kept(home: Path) -> Path:
    for folder in session_folders(home):
        found = read_session(folder)
        if not found.breaks and any(t.end == "kept" for t in found.state().trials):
            return folder
    raise CannotAnswer(f"nothing is kept in {home}/sessions. Try: pellucid trials")
