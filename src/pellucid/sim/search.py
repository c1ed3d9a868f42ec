"""Many settings tried on virtual time → the few that are worth a real trial.

    found = search(score, start, DIALS, Budget(trials_count=60, limit_s=20), seed=0, clock=time.monotonic)
    found.ranked[0]          Scored(settings, Score(broken_ratio=0.0, wanted=1.86, …)), the best first
    found.tried_count        what a grid of the same dials would have measured is found.grid_count

Each dial has a ladder of values about the present one. First the present settings and every single step of a dial,
then what a tree-structured Parzen estimator (Bergstra et al. 2011; Optuna's) asks for. Limits come first: settings that
break them less are better, and among those that keep them the one with the most of what is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from pellucid.core.errors import AskedWrongly
from pellucid.sim.engine.settings import Settings


@dataclass(frozen=True, slots=True)
class Dial:
    field: str                         # of Settings
    low: int
    high: int
    off: int | None = None             # a value beside the ladder: no such limit
    first: int = 64                    # the ladder's middle where the present value is `off`

    def ladder(self, present: int) -> tuple[int, ...]:
        """A quarter to four times the present value, by factors of two; the present one is among them."""
        middle = self.first if present == self.off else present
        values = {present} | ({self.off} if self.off is not None else set())
        values |= {v for k in range(-2, 3) if self.low <= (v := round(middle * 2.0**k)) <= self.high}
        return tuple(sorted(values))


@dataclass(frozen=True, slots=True)
class Score:
    """Of one candidate: how far it is beyond limits (0: it keeps them all), and how much there is of what is wanted."""

    broken_ratio: float
    wanted: float
    latency_ns: float                  # decides among those that are alike in both


@dataclass(frozen=True, slots=True)
class Scored:
    settings: Settings
    score: Score
    turned_count: int                  # dials that are not where they were

    @property
    def alike(self) -> tuple[float, float, float]:
        """The same for two that differ by less than a hundredth in everything, the smaller the better."""
        return round(self.score.broken_ratio, 2), -_hundredths(self.score.wanted), _hundredths(self.score.latency_ns)

    @property
    def order(self) -> tuple[tuple[float, float, float], int]:
        """Among those alike, the one that turns fewest."""
        return self.alike, self.turned_count


@dataclass(frozen=True, slots=True)
class Budget:
    trials_count: int
    limit_s: float


@dataclass(frozen=True, slots=True)
class Found:
    ranked: tuple[Scored, ...]         # each settings once, the best first
    present: Scored
    grid_count: int                    # combinations that the dials have

    @property
    def tried_count(self) -> int:
        return len(self.ranked)

    def best(self, count: int) -> list[Scored]:
        """Those before the present one, of those alike the simplest only."""
        first: dict[tuple[float, float, float], Scored] = {}
        for one in self.ranked:
            if one.alike < self.present.alike:
                first.setdefault(one.alike, one)
        return list(first.values())[:count]


def search(
    score: Callable[[Settings], Score], start: Settings, dials: Sequence[Dial], budget: Budget, seed: int,
    clock: Callable[[], float],
) -> Found:  # fmt: skip
    """Raises AskedWrongly without a dial."""
    import optuna  # a third of a second, and only a search needs it

    if not dials:
        raise AskedWrongly("nothing to turn: no setting that a twin can follow may be changed here")
    ladders = {dial.field: dial.ladder(getattr(start, dial.field)) for dial in dials}
    present = {name: getattr(start, name) for name in ladders}
    known: dict[Settings, Scored] = {}

    def scored(values: Mapping[str, int]) -> Scored | None:
        try:
            settings = replace(start, **values)    # type: ignore[arg-type]      # dials turn whole numbers
        except AskedWrongly:           # values that no engine takes together
            return None
        if settings not in known:
            turned = sum(value != present[name] for name, value in values.items())
            known[settings] = Scored(settings, score(settings), turned)
        return known[settings]

    until = clock() + budget.limit_s
    first = scored(present)
    assert first is not None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=optuna.samplers.TPESampler(seed=seed))
    for values in (present, *_single_steps(present, ladders)):
        study.enqueue_trial(dict(values))
    for _ in range(budget.trials_count * 4):           # most of what comes late has been tried
        if len(known) >= budget.trials_count or clock() > until or len(known) == prod(map(len, ladders.values())):
            break
        trial: Any = study.ask()
        one = scored({name: trial.suggest_categorical(name, ladder) for name, ladder in ladders.items()})
        if one is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, (one.score.broken_ratio, one.score.wanted))
    ranked = sorted(known.values(), key=lambda s: s.order)
    return Found(tuple(ranked), first, prod(map(len, ladders.values())))


def _hundredths(value: float) -> float:
    return round(math.log(value), 2) if value > 0 else -math.inf


def _single_steps(present: Mapping[str, int], ladders: Mapping[str, tuple[int, ...]]) -> list[dict[str, int]]:
    return [{**present, name: value} for name, ladder in ladders.items() for value in ladder if value != present[name]]
