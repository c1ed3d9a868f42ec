"""All that was tried or refused, of one session or of all: their journals → rows. And claims beside outcomes.

    trials(home, None).json()
    {"rows": [{"session": "20261130-091500-a1b2", "trial": 1, "candidate": "step_token_budget=512", "state": "kept",
               "speed": "better", "fidelity": "same", "outcome_ratio": 0.12, …}], "units": {…}}

state   kept · rolled back · not rolled back · refused (by the guard, before anything started) · waiting · running · cut
        off (its process is gone; the next one takes it back first)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pellucid.core.errors import Failed
from pellucid.core.units import unit_of
from pellucid.tune.claims import compared, scores
from pellucid.tune.events import Proposal
from pellucid.tune.slo import GOALS
from pellucid.tune.space import words
from pellucid.tune.state import Refused, State, Trial
from pellucid.verbs.loop.sessions import Session, find_session, read_session, session_folders


@dataclass(frozen=True, slots=True)
class Trials:
    rows: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    notes: tuple[str, ...] = field(default_factory=tuple)     # sessions that could not be read, and why

    def json(self) -> dict[str, Any]:
        return _listed(self.rows)

    def claims_json(self) -> dict[str, Any]:
        """A row for each rule or proposer."""
        return _listed(self.claims)


def trials(home: Path, session: str | None) -> Trials:
    """Of all sessions, newest first, for None. Raises AskedWrongly for one that is not there."""
    folders = session_folders(home) if session is None else [find_session(home, session)]
    rows, notes, tried = list[dict[str, Any]](), list[str](), list[Trial]()
    for folder in folders:
        found = read_session(folder)
        if found.breaks:
            notes.append(f"the journal of {folder.name} is broken in line {found.breaks[0].line}. Try: pellucid audit --session {folder.name}")  # noqa: E501
        try:
            state = found.state()
        except Failed as error:
            notes.append(f"{folder.name} is left out: {error}")
            continue
        rows += _rows(found, state)
        tried += state.trials
    return Trials(rows, [asdict(score) for score in scores(tried)], tuple(notes))


def _rows(session: Session, state: State) -> list[dict[str, Any]]:
    """In the order in which they came: trials, then what was refused, then what waits."""
    times = _times(session)
    rows = [_trial(session, state, trial, times) for trial in state.trials]
    rows += [_refused(session, refused) for refused in state.refused]
    waiting = state.queue if state.phase != "finished" else ()
    return rows + [_row(session, p, "waiting", "") for p in waiting]


def _row(session: Session, proposal: Proposal, state: str, why: str) -> dict[str, Any]:
    """With every column there is."""
    claim = proposal.claim
    return {
        "session": session.folder.name, "trial": None, "candidate": words(proposal.candidate), "state": state,
        "speed": None, "fidelity": None, "metric": None, "outcome_ratio": None, "outcome_low_ratio": None,
        "outcome_high_ratio": None, "claim_metric": claim and claim.metric,
        "claim_low_ratio": claim and claim.low_ratio, "claim_high_ratio": claim and claim.high_ratio,
        "claim_covered": None, "proposer": proposal.proposer, "source": proposal.source or None, "why": why,
        "started_wall_ns": None, "duration_ns": None, "pairs_count": None,
    }  # fmt: skip


def _trial(session: Session, state: State, trial: Trial, times: dict[int, list[int]]) -> dict[str, Any]:
    under_way = "running" if session.running else "cut off"
    row = _row(session, trial.proposal, trial.end or under_way, trial.says)
    started, ended = times[trial.number][0], times[trial.number][-1]
    row |= {"trial": trial.number, "started_wall_ns": started, "duration_ns": ended - started if trial.end else None,
            "fidelity": trial.fidelity and trial.fidelity.word}  # fmt: skip
    if trial.speed is not None:
        row |= {"speed": trial.speed.word, "pairs_count": trial.speed.pairs_count} | _outcome(state, trial)
    row["claim_covered"] = beside.covered if (beside := compared(trial)) is not None else None
    return row


def _outcome(state: State, trial: Trial) -> dict[str, Any]:
    """As an improvement: in the claim's metric where that was measured, else in what the session maximises."""
    claimed = compared(trial)
    if claimed is not None and claimed.covered is not None:
        return {"metric": claimed.metric, "outcome_ratio": claimed.outcome_ratio,
                "outcome_low_ratio": claimed.outcome_low_ratio, "outcome_high_ratio": claimed.outcome_high_ratio}
    metric = GOALS.get(state.started.maximise if state.started else "")
    found = next((m for m in trial.speed.measures if m.metric == metric), None) if trial.speed else None
    if found is None:
        return {}
    middle, low, high = (None if r is None else r - 1 for r in (found.ratio, found.low_ratio, found.high_ratio))
    return {"metric": metric, "outcome_ratio": middle, "outcome_low_ratio": low, "outcome_high_ratio": high}


def _refused(session: Session, refused: Refused) -> dict[str, Any]:
    return _row(session, refused.proposal, "refused", f"{refused.check}: {refused.reason}")


def _times(session: Session) -> dict[int, list[int]]:
    """Wall-clock ns of the entries of each trial, while it lasted."""
    times: dict[int, list[int]] = {}
    for entry in session.entries:
        if isinstance(number := entry.payload.get("trial"), int) and entry.kind != "undone":
            times.setdefault(number, []).append(entry.wall_ns)
    return times


def _listed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = rows[0] if rows else ()
    return {"rows": rows, "units": {n: unit_of(n) for n in names if unit_of(n)}}
