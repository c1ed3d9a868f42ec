"""What a twin of the observed run holds to be worth a trial: many settings on virtual time → a few promises.

    foreseen(run, limits, "output_tokens_per_s", say)      (Promise((max_running_requests=64,), Claim(…), True, "…"), …)

The load is that of the recording. Where the run is not enough for a twin it says why, and nothing is promised: rules
and other proposers go on as without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pellucid.core.errors import CannotAnswer
from pellucid.sim.engine.settings import Settings
from pellucid.sim.outcome import Timed
from pellucid.sim.predict import Measured, Predicted, Value, gain, predict, quick
from pellucid.sim.search import Budget, Dial, Found, Score, search
from pellucid.store.read import open_run
from pellucid.tune.events import Claim
from pellucid.tune.propose.twin import MOST, Promise
from pellucid.tune.slo import Objective, Slo, overall_ns
from pellucid.tune.space import Setting, candidate, words
from pellucid.verbs.predict.asks import asks_of
from pellucid.verbs.predict.good import NAME, good_per_s, requests_of
from pellucid.verbs.predict.twin import twin_of
from pellucid.workload.recorded import recorded

DIALS = {
    "max_running_requests": Dial("sequence_cap_count", 1, 1024),
    "step_token_budget": Dial("token_budget_tokens", 16, 65_536),
    "long_prefill_threshold": Dial("long_prefill_tokens", 16, 65_536, off=0),
}  # fmt: skip
BUDGET = Budget(trials_count=60, limit_s=30.0)
LEAST_GAIN = 0.01          # of the goal, in the worst of all rounds, for a trial to be worth its minutes
IMPOSSIBLE = Score(1e6, 0.0, 0.0)
CLAIMED = ("ttft_mean_ns", "itl_mean_ns", "e2e_mean_ns")


def foreseen(run: Path, slo: Slo, goal: str, say: Callable[[str], None]) -> tuple[Promise, ...]:
    try:
        reader = open_run(run)
        made, asks = twin_of(reader), asks_of(recorded(reader, run.name))
    except CannotAnswer as error:
        say(f"no twin: {error}")
        return ()
    also, began_s = _also(slo), time.monotonic()

    def score(settings: Settings) -> Score:
        if settings.token_budget_tokens < settings.sequence_cap_count:
            return IMPOSSIBLE
        return scored(quick(asks, settings, made.twin, also), slo, goal)

    found = search(score, made.settings, tuple(DIALS.values()), BUDGET, 0, time.monotonic)
    present = predict(asks, made.settings, made.twin, also)
    promises = tuple(
        _promise(one.settings, made.settings, predict(asks, one.settings, made.twin, also), present, slo, goal)
        for one in found.best(MOST)
    )
    say(_told(found, promises, time.monotonic() - began_s))
    return promises


def scored(measured: Measured, slo: Slo, goal: str) -> Score:
    broken = sum(_broken(measured, objective) for objective in slo)
    return Score(broken, measured.get(goal) or 0.0, measured["e2e_mean_ns"] or 0.0)


def _broken(measured: Measured, objective: Objective) -> float:
    value, limit = measured[objective.measure], objective.limit_ns
    if value is None:
        return 0.0
    return max(0.0, value / limit - 1 if objective.side == "<" else limit / max(value, 1.0) - 1)


def _also(slo: Slo) -> Callable[[Timed], Measured]:
    """Goodput and each limit's own measure; nothing without limits."""

    def also(timed: Timed) -> Measured:
        if not slo:
            return {}
        requests = requests_of(timed)
        return {NAME: good_per_s(slo, timed, requests), **{o.measure: overall_ns(o, requests) for o in slo}}

    return also


def _promise(
    settings: Settings, start: Settings, there: Predicted, here: Predicted, slo: Slo, goal: str
) -> Promise:  # fmt: skip
    chosen = candidate(Setting(knob, getattr(settings, dial.field)) for knob, dial in DIALS.items()
                       if getattr(settings, dial.field) != getattr(start, dial.field))  # fmt: skip
    wanted = gain(goal, there, here)
    broken = [(scored(a, slo, goal).broken_ratio, scored(b, slo, goal).broken_ratio)
              for a, b in zip(there.rounds, here.rounds, strict=True)]  # fmt: skip
    keeps_more = all(after < before - LEAST_GAIN for after, before in broken)
    more = wanted is not None and wanted.low > LEAST_GAIN
    claim = _claim(goal, wanted, there, here)
    says = f"the twin expects {_said(goal, wanted)}" + (", and limits kept that are broken now" if keeps_more else "")
    regime = "queueing" if here.waiting_mean_count >= 1 else "keeping_up"
    return Promise(chosen, claim, more or keeps_more, says, regime)


def _claim(goal: str, wanted: Value | None, there: Predicted, here: Predicted) -> Claim | None:
    """On the goal where it is a metric of the catalogue, else on the latency that it changes most."""
    if goal == "output_tokens_per_s":
        return None if wanted is None else Claim(goal, wanted.low, wanted.high)
    gains = [(name, less) for name in CLAIMED if (less := gain(name, there, here)) is not None]
    if not gains:
        return None
    name, less = min(gains, key=lambda pair: pair[1].value)
    return Claim(name, -less.high, -less.low)


def _said(goal: str, wanted: Value | None) -> str:
    name = {"goodput_per_s": "goodput", "output_tokens_per_s": "output tokens a second"}.get(goal, goal)
    if wanted is None:
        return f"nothing that can be told of {name}"
    return f"{wanted.value:+.0%} {name} ({wanted.low:+.0%} to {wanted.high:+.0%})"


def _told(found: Found, promises: tuple[Promise, ...], took_s: float) -> str:
    head = (f"the twin tried {found.tried_count} of {found.grid_count} settings on virtual time in {took_s:.0f} s, "
            f"instead of as many trials")  # fmt: skip
    worth = [p for p in promises if p.better]
    if not worth:
        return f"{head}; it holds none to be better than the present ones"
    return f"{head}; worth a trial: " + "; ".join(f"{words(p.candidate)} ({p.says})" for p in worth)
