"""The audit log of a session, verified: every entry with its evidence, and where the chain of hashes does not hold.

    found = audit(home, None)
    found.whole                 False: a line was changed, lost or moved, or the end was cut off
    found.json()                {"rows": [{"seq": 0, "wall_ns": …, "kind": "started", "payload": {…}, …}], "units": {…}}

A torn last line is not damage: its writer was killed in the middle of it, and nothing was done on the strength of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.core.errors import Failed
from pellucid.core.units import counted
from pellucid.tune.journal import Entry
from pellucid.verbs.loop.sessions import Session, find_session, read_session


@dataclass(frozen=True, slots=True)
class Audit:
    session: str
    rows: list[dict[str, Any]]
    breaks: tuple[str, ...]        # where and what, in words
    notes: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.breaks

    def json(self) -> dict[str, Any]:
        units = {"wall_ns": "ns", "mono_ns": "ns"} if self.rows else {}
        return {"rows": self.rows, "units": units, "session": self.session, "whole": self.whole,
                "breaks": list(self.breaks), "notes": list(self.notes)}  # fmt: skip


def audit(home: Path, session: str | None) -> Audit:
    """Of the newest session for None. Raises CannotAnswer or AskedWrongly where there is none."""
    found = read_session(find_session(home, session))
    breaks = [f"line {b.line}: {b.says}" for b in found.breaks]
    if not breaks and (fault := _impossible(found)):
        breaks.append(fault)
    return Audit(found.folder.name, [_row(e) for e in found.entries], tuple(breaks), tuple(_notes(found)))


def _row(entry: Entry) -> dict[str, Any]:
    return {"seq": entry.seq, "wall_ns": entry.wall_ns, "mono_ns": entry.mono_ns, "kind": entry.kind,
            "says": says(entry), "payload": entry.payload, "hash": entry.hash}  # fmt: skip


def says(entry: Entry) -> str:
    """The entry in a line. The whole of it is its payload."""
    p = entry.payload
    trial = f"trial {p['trial']}: " if isinstance(p.get("trial"), int) else ""
    match entry.kind:
        case "started":
            text = f"{p.get('mode')}: {' '.join(map(str, p.get('command', ())))}"
        case "proposed":
            text = "; ".join((counted(len(p.get("proposals", ())), "proposals"), *p.get("trouble", ())))
        case "guarded":
            text = f"allowed, {p.get('way')}" if p.get("allowed") else f"refused, {p.get('check')}: {p.get('reason')}"
        case "trialstarted":
            text = f"started, {p.get('way')}"
        case "peeked" | "speedjudged":
            text = f"{p.get('word')} after {counted(p.get('pairs_count'), 'pairs')}"
        case _:
            text = ": ".join(str(p[k]) for k in ("who", "word", "verdict", "run", "says") if p.get(k))
    return f"{trial}{text}"


def _impossible(session: Session) -> str:
    """A chain that holds may still tell what cannot have been: somebody wrote it who is not the loop."""
    try:
        session.state()
    except Failed as error:
        return str(error)
    return ""


def _notes(session: Session) -> list[str]:
    notes = []
    if session.torn_bytes and not session.running:
        notes.append(f"the last line is torn after {session.torn_bytes} bytes: its writer was killed in it")
    finished = bool(session.entries) and session.entries[-1].kind == "finished"
    if session.running:
        notes.append("a process is working on it")
    elif not finished:
        notes.append("it did not come to its end: its process is gone")
    return notes
