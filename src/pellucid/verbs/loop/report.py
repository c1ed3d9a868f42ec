"""What a session was, or a trial that was asked for alone: its journal and its trials' outcomes → a report.

    report(home, None).ending        "Kept step_token_budget=512: throughput +8.0% (+5.0% to +11%), fidelity same; …"
    report(home, "20261130")         a session, or else a trial, by id or unique start of it

The journal's evidence of a trial is its outcome, or `folder`, where outcome.json lies. A folder that was moved with its
home is found in the home's `trials`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.tune.report.fold import of_session, of_trial, outcomes_named
from pellucid.tune.report.measured import Measured, measured
from pellucid.tune.report.shape import Chain, Report
from pellucid.verbs.loop.audit import audit
from pellucid.verbs.loop.sessions import find_session, read_session, session_folders
from pellucid.verbs.loop.trial.outcome import FILE


def report(home: Path, wanted: str | None) -> Report:
    """For None of the newest session, or where there is none of the newest trial. Raises CannotAnswer where there is
    nothing, AskedWrongly where nothing or more than one has that id, Failed where it does not read."""
    if session_folders(home) if wanted is None else _starts(session_folders(home), wanted):
        return _session(home, wanted)
    return of_trial(_alone(_trial_folder(home, wanted)))


def _session(home: Path, wanted: str | None) -> Report:
    folder = find_session(home, wanted)
    found, verified = read_session(folder), audit(home, folder.name)
    last = found.entries[-1].hash if found.entries else None
    chain = Chain(len(found.entries), last, verified.breaks, 0 if found.running else found.torn_bytes, found.running)
    outcomes = {trial: _outcome(home, evidence) for trial, evidence in outcomes_named(found.entries).items()}
    return of_session(folder.name, found.entries, outcomes, chain)


def _outcome(home: Path, evidence: dict[str, Any]) -> Measured | str:
    if "pairs" in evidence:
        return measured(evidence)
    named = evidence.get("folder")
    if not isinstance(named, str) or not named:
        return "the journal names no outcome"
    places = (Path(named), home / "trials" / Path(named).name)
    return next((_read(place / FILE) for place in places if (place / FILE).is_file()), f"{named}/{FILE} is not there")


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


def _trial_folder(home: Path, wanted: str | None) -> Path:
    folders = sorted((p.parent for p in (home / "trials").glob(f"*/{FILE}")), key=lambda p: p.name, reverse=True)
    if wanted is None:
        if not folders:
            raise CannotAnswer(f"nothing was tried in {home} yet. Try: pellucid try --help")
        return folders[0]
    hits = _starts(folders, wanted)
    if len(hits) != 1:
        saw = "neither a session nor a trial has that id" if not hits else f"{len(hits)} trials start so"
        raise AskedWrongly(f"{wanted!r}: {saw} in {home}. Try: pellucid trials")
    return hits[0]


def _starts(folders: list[Path], wanted: str) -> list[Path]:
    return [f for f in folders if f.name == wanted] or [f for f in folders if wanted and f.name.startswith(wanted)]
