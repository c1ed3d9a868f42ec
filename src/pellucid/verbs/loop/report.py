"""What a session was, or a trial that was asked for alone: its journal and its trials' outcomes → a report.

    report(home, None).ending        "Kept step_token_budget=512: throughput +8.0% (+5.0% to +11%), fidelity same; …"
    report(home, "20261130")         a session, or else a trial, by id or unique start of it

The journal's evidence of a trial names the file of its outcome. One that was moved with its home is found in the home's
`trials`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.core.units import S_NS
from pellucid.tune.report.fold import UNNAMED, of_session, of_trial, outcomes_named
from pellucid.tune.report.measured import Measured, measured
from pellucid.tune.report.shape import Chain, Report
from pellucid.verbs.loop.audit import audit
from pellucid.verbs.loop.sessions import find_session, read_session, session_folders
from pellucid.verbs.loop.trial.outcome import FILE
from pellucid.verbs.loop.tuning.wish import read as read_wish


def report(home: Path, wanted: str | None) -> Report:
    """For None of whatever is newest. Raises CannotAnswer where there is nothing, AskedWrongly where nothing or more
    than one has that id, Failed where it does not read."""
    sessions, trials = session_folders(home), _trial_folders(home)
    if wanted is None:
        if not sessions and not trials:
            raise CannotAnswer(f"nothing was tried in {home} yet. Try: pellucid try --help")
        alone = [t for t in trials[:1] if not sessions or _is_alone(t, sessions[0])]
        return of_trial(_alone(alone[0])) if alone else _session(home, sessions[0])
    if _starts(sessions, wanted):
        return _session(home, find_session(home, wanted))
    hits = _starts(trials, wanted)
    if len(hits) != 1:
        saw = "neither a session nor a trial has that id" if not hits else f"{len(hits)} trials start so"
        raise AskedWrongly(f"{wanted!r}: {saw} in {home}. Try: pellucid trials")
    return of_trial(_alone(hits[0]))


def _session(home: Path, folder: Path) -> Report:
    found, verified = read_session(folder), audit(home, folder.name)
    last = found.entries[-1].hash if found.entries else None
    chain = Chain(len(found.entries), last, verified.breaks, 0 if found.running else found.torn_bytes, found.running)
    outcomes = {trial: _outcome(home, evidence) for trial, evidence in outcomes_named(found.entries).items()}
    return of_session(folder.name, found.entries, outcomes, chain, _asked(folder))


def _asked(folder: Path) -> dict[str, Any]:
    """Traffic and seed, as a trial tells them; empty where the session did not say."""
    try:
        wish = read_wish(folder)
    except CannotAnswer:
        return {}
    return {**asdict(wish.traffic), "block_ns": int(wish.block_s * S_NS)}


def _outcome(home: Path, evidence: dict[str, Any]) -> Measured | str:
    if (path := _named(evidence)) is None:
        return UNNAMED
    places = (path, home / "trials" / path.parent.name / FILE)
    return next((_read(place) for place in places if place.is_file()), f"{path} is not there")


def _named(evidence: dict[str, Any]) -> Path | None:
    named = evidence.get("outcome")
    return Path(named) if isinstance(named, str) and named else None


def _read(path: Path) -> Measured | str:
    """A number that is none, such as NaN, was not seen."""
    try:
        return measured(json.loads(path.read_bytes(), parse_constant=lambda _: None))
    except (OSError, ValueError) as error:
        return f"{path} does not read: {error}"


def _alone(folder: Path) -> Measured:
    found = _read(folder / FILE)
    if isinstance(found, str):
        raise Failed(f"trial {folder.name}: {found}")
    return found


def _trial_folders(home: Path) -> list[Path]:
    """Of those that came to an outcome, newest first: their names begin with the time."""
    return sorted((p.parent for p in (home / "trials").glob(f"*/{FILE}")), key=lambda p: p.name, reverse=True)


def _is_alone(trial: Path, session: Path) -> bool:
    """Whether a trial was asked for by itself, after that session."""
    named = map(_named, outcomes_named(read_session(session).entries).values())
    return trial.name > session.name and trial.name not in {path.parent.name for path in named if path}


def _starts(folders: list[Path], wanted: str) -> list[Path]:
    return [f for f in folders if f.name == wanted] or [f for f in folders if wanted and f.name.startswith(wanted)]
