"""`pellucid tune`: a session of the loop from its wish to its end, or from where it was cut off.

    done = tune(wish, home, os.environ, launcher, say)
    done = resume(None, home, os.environ, launcher, say)      the newest session that has not ended
    done.json()      {"session": "20261130-091500-a1b2", "ending": "done", "says": "kept max_running_requests=64 (…)",
                      "present": {"max_running_requests": 64}, "command": ["python", …], "trials": [{…}, …]}
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.catalog.servers.command_line import understood
from pellucid.core.clock import anchor_now, monotonic_ns
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.tune import events as e
from pellucid.tune import loop
from pellucid.tune.command import Command, shareable
from pellucid.tune.effect.spend import SESSION_ERROR
from pellucid.tune.propose import listed
from pellucid.tune.state import State, fold
from pellucid.verbs.loop.sessions import Journal, find_session, new_session_id, read_session, session_folders, writing
from pellucid.verbs.loop.trial.wish import Say
from pellucid.verbs.loop.trials import trials
from pellucid.verbs.loop.tuning import wish as wishes
from pellucid.verbs.loop.tuning.desk import Ask, Desk
from pellucid.verbs.loop.tuning.program import program
from pellucid.verbs.loop.tuning.wish import Wish

ANSWER_S = 60.0            # chosen: an agent that thinks longer over one answer is not waited for

Launcher = Callable[[Path, bool], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Done:
    session: str
    state: State
    kept_command: tuple[str, ...] | None      # of the last that was kept; None where nothing was
    rows: list[dict[str, Any]]                # as of `trials`

    def json(self) -> dict[str, Any]:
        end = self.state.finished
        return {
            "session": self.session, "ending": end.word if end else None, "says": end.says if end else "",
            "present": {s.knob: s.value for s in self.state.present}, "command": self.kept_command, "trials": self.rows,
        }  # fmt: skip


def tune(wish: Wish, home: Path, environ: Mapping[str, str], launcher: Launcher, say: Say) -> Done:
    """Raises AskedWrongly before anything starts where the wish does not make sense."""
    wish.aim()
    if not Path(wish.workload).is_file():
        raise AskedWrongly(f"{wish.workload}: no such file. Try: pellucid workload record w.parquet --run ID")
    if wish.listed:
        _legible(Path(wish.listed))
    entry = understood(wish.command)
    now = anchor_now()
    session = new_session_id(now.wall_ns)
    wishes.save(wish, home / "sessions" / session)
    command = shareable(Command(wish.command))
    first = e.Started(
        "tune", command.argv, dict(command.env), entry.engine, "", {}, wish.workload, wish.slo, wish.maximise,
        int(wish.budget_s * 1e9), SESSION_ERROR, may_restart=False, control=False,
    )  # fmt: skip
    with writing(home, session, anchor_now) as (journal, _):
        return _run(wish, home, environ, launcher, say, journal, fold(State(), first, journal.record(first)))


def resume(wanted: str | None, home: Path, environ: Mapping[str, str], launcher: Launcher, say: Say) -> Done:
    """Raises CannotAnswer where there is nothing to go on with."""
    folder = find_session(home, wanted) if wanted else _unfinished(home)
    wish = wishes.read(folder)
    with writing(home, folder.name, anchor_now) as (journal, torn_bytes):
        state = journal.state()
        if state.phase == "finished":
            raise CannotAnswer(f"session {folder.name} has ended: {state.finished.says if state.finished else ''}")
        event = e.Resumed(torn_bytes)
        say(f"going on with session {folder.name}")
        return _run(wish, home, environ, launcher, say, journal, fold(state, event, journal.record(event)))


def _run(
    wish: Wish, home: Path, environ: Mapping[str, str], launcher: Launcher, say: Say, journal: Journal, state: State
) -> Done:
    session = journal.folder.name
    with _proposer(wish) as ask:
        desk = Desk(wish, home, session, environ, launcher, say, journal.state, ask)
        with contextlib.closing(desk):
            state = loop.run(state, loop.Desk(desk.perform, journal.record, journal.state, monotonic_ns))
    kept = next((t for t in reversed(state.trials) if t.end == "kept"), None)
    return Done(session, state, kept.started.command if kept else None, trials(home, session).rows)


def _legible(path: Path) -> None:
    try:
        listed.entries(path.read_bytes(), path.name)
    except OSError as error:
        raise AskedWrongly(f"{path}: {error.strerror}. Lists of candidates: docs/proposers.md") from error


@contextlib.contextmanager
def _proposer(wish: Wish) -> Iterator[Ask | None]:
    if not wish.program:
        yield None
        return
    with program(wish.program, ANSWER_S) as ask:
        yield ask


def _unfinished(home: Path) -> Path:
    for folder in session_folders(home):
        found = read_session(folder)
        if not found.running and found.entries and found.state().phase != "finished":
            return folder
    raise CannotAnswer("no session was cut off. Try: pellucid trials")
