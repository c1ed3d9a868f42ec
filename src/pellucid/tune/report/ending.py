"""How a session ended, in a sentence that can stand alone.

    Kept step_token_budget=512: throughput +8.0% (+5.0% to +11%), fidelity same; 4 trials, …, in 28 min.
    Nothing beats the present configuration; 3 trials, 0 proposals refused, in 12 min.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pellucid.core.units import duration, percent
from pellucid.tune.events import Measure
from pellucid.tune.loop import beaten
from pellucid.tune.report.measured import Measured
from pellucid.tune.slo import GOALS
from pellucid.tune.space import words
from pellucid.tune.state import State, Trial

GOAL_OF: Final = {metric: goal for goal, metric in GOALS.items()}
LEFT: Final = "something is still as a trial made it"


def ending(state: State, running: bool) -> str:
    """Of a session, also of one that is not at its end."""
    if state.started is None:
        return "Nothing happened: the journal holds no start of a session."
    came = f"{_came(state)}; {_took(state)}"
    if state.finished is None:
        return f"{_open(state, running)} So far: {came}."
    why = {"done": "", "budget": "The budget is spent. ", "not rolled back": f"{_first(LEFT)}: {state.stop_says}. "}
    return f"{why.get(state.finished.word, f'Ended early, {state.finished.word}: {state.stop_says}. ')}{_first(came)}."


def ending_of(trial: Measured) -> str:
    """Of a trial that was asked for alone: it is judged and never kept."""
    answers = f", fidelity {trial.fidelity.word}" if trial.fidelity else ", answers not judged"
    return f"Tried {trial.candidate}: {trial.word}, {trial.reason}{answers}; in {duration(trial.took_ns)}."


def change(ratio: float | None) -> str:
    """Candidate over present → how much more: +8.0%, -41%; open for an end that there is not."""
    return "open" if ratio is None else f"{'+' if ratio >= 1 else ''}{percent(ratio - 1)}"


def told(measure: Measure) -> str:
    """throughput +8.0% (+5.0% to +11%)"""
    name = GOAL_OF.get(measure.metric, measure.metric)
    middle = "not known" if measure.ratio is None else change(measure.ratio)
    return f"{name} {middle} ({change(measure.low_ratio)} to {change(measure.high_ratio)})"


def goal_of(measures: Sequence[Measure], maximise: str | None) -> Measure | None:
    """What the session maximises, or else what was measured first."""
    wanted = GOALS.get(maximise or "")
    return next((m for m in measures if m.metric == wanted), measures[0] if measures else None)


def _open(state: State, running: bool) -> str:
    if running:
        return f"Not finished: it is {state.phase} now."
    under_way = f" in trial {state.trial.number}, which its next process takes back first" if state.trial else ""
    return f"Not finished: its process is gone{under_way}."


def _came(state: State) -> str:
    kept = [t for t in state.trials if t.end == "kept"]
    if len(kept) == 1:
        return f"kept {_kept(state, kept[0])}"
    if kept:
        return f"kept {words(state.present)}, in {len(kept)} steps: {'; '.join(_kept(state, t) for t in kept)}"
    if undone := [t for t in state.trials if t.end == "undone"]:
        return f"nothing is kept any more: {'; '.join(_kept(state, t) for t in undone)} was undone"
    if not state.trials:
        return "nothing was tried"
    if state.started is not None and state.started.mode == "try":
        return "one trial, which is judged and never kept"
    ended = state.finished is not None and state.finished.word == "done"
    return beaten(state) if ended else "nothing was kept"


def _kept(state: State, trial: Trial) -> str:
    measures = trial.speed.measures if trial.speed else ()
    goal = goal_of(measures, state.started.maximise if state.started else None)
    answers = f"fidelity {trial.fidelity.word}" if trial.fidelity else "fidelity not judged"
    return f"{words(trial.proposal.candidate)}: {f'{told(goal)}, ' if goal else ''}{answers}"


def _took(state: State) -> str:
    tried, refused = _number(len(state.trials), "trial"), _number(len(state.refused), "proposal")
    return f"{tried}, {refused} refused, in {duration(state.spent_ns)}"


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
