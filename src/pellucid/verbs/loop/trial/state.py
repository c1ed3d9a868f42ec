"""Where a trial stands: what is known of its engine, what was measured, what time is left, and the outcome of that."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from pellucid.core.units import S_NS, duration
from pellucid.tune.command import Command
from pellucid.tune.effect.arms import OneEngine, TwoEngines, two_engines
from pellucid.tune.effect.judge import Effect, judge
from pellucid.tune.effect.pairs import DIRECTIONS, Pair
from pellucid.tune.effect.requests import Timing, spreads
from pellucid.tune.fidelity.verdict import Fidelity
from pellucid.tune.space import Candidate, words
from pellucid.verbs.loop.trial import noise
from pellucid.verbs.loop.trial.arms.trouble import Role, Trouble
from pellucid.verbs.loop.trial.lab import Lab, noise_conditions
from pellucid.verbs.loop.trial.outcome import Conditions, Outcome, StartOf
from pellucid.verbs.loop.trial.pairing import Bench
from pellucid.verbs.loop.trial.pieces import Pieces
from pellucid.verbs.loop.trial.turns import MOST_NOISE_STARTS, NOISE_PAIRS, TRIAL_STARTS, Kind, first_share_s, next_kind
from pellucid.verbs.loop.trial.wish import Say, Wish

UNBIASED = TwoEngines(dict.fromkeys(DIRECTIONS, (0.0, 0.0)), TRIAL_STARTS)
CLIENT_BOUND_RATIO = 0.25            # chosen: of blocks; above it the numbers are the client's


@dataclass(frozen=True, slots=True)
class Known:
    """What the first engine that served has told."""

    conditions: Conditions
    settings: Candidate
    command: Command                 # the candidate's
    pieces: Pieces


@dataclass(slots=True)
class Trial:
    lab: Lab
    say: Say
    trial_id: str
    began_wall_ns: int
    began_s: float                   # monotonic
    coin: random.Random
    found: Known | None = None
    pairs: list[Pair] = field(default_factory=list)
    starts: list[StartOf] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    requests: dict[Role, list[Timing]] = field(default_factory=lambda: {"present": [], "candidate": []})
    client_bound: list[str] = field(default_factory=list)
    blocks_count: int = 0
    boot_s: float = 0.0              # of the last start
    pair_s: float = 0.0              # of the last pair, with its pauses
    pieces_count: int = 0            # pieces that were used
    fidelity: Fidelity | None = None
    fidelity_blind: str = ""
    is_told: bool = False            # the pairs have a word, were two engines of one configuration alike

    @property
    def wish(self) -> Wish:
        return self.lab.wish

    @property
    def known(self) -> Known:
        assert self.found is not None      # there once an engine has served
        return self.found

    @property
    def left_s(self) -> float:
        return self.began_s + self.wish.budget_s - time.monotonic()

    def left(self) -> str:
        return f"{duration(max(0, math.ceil(self.left_s)) * S_NS)} left"

    def starts_count(self, kind: Kind) -> int:
        return sum(s.kind == kind for s in self.starts)

    def has_time(self, kind: Kind) -> bool:
        """For another start: two boots, warming, and the fewest pairs that are of use."""
        pairs = 1 + (NOISE_PAIRS if kind == "noise" else 2)
        return self.has_pairs_left() and self.left_s > self.boot_s + pairs * self.pair_s

    def has_time_for_pair(self) -> bool:
        return self.has_pairs_left() and self.left_s > self.pair_s

    def has_pairs_left(self) -> bool:
        return self.wish.pairs_most is None or len(self.pairs) < self.wish.pairs_most

    def next_kind(self) -> Kind | None:
        if self.is_live:
            return None if self.starts else "trial"
        return next_kind(self.starts_count("trial"), self.noise_starts() if self.starts else 0, self.is_told)

    def noise_path(self) -> Path:
        return self.wish.noise or noise.place(self.wish.home, noise_conditions(self.known.conditions))

    def noise_starts(self) -> int:
        """To a file that the user gave nothing is added."""
        if self.wish.noise:
            return MOST_NOISE_STARTS
        return len({pair.start for pair in noise.pairs(self.noise_path())})

    @property
    def is_live(self) -> bool:
        return self.lab.is_live()

    def effect(self) -> Effect:
        if self.is_live:
            return judge(self.pairs, self.wish.spend, self.wish.aim, OneEngine())
        arms = two_engines(noise.pairs(self.noise_path()), TRIAL_STARTS)
        return judge(self.pairs, self.wish.spend, self.wish.aim, arms)

    def effect_alone(self) -> Effect:
        """Were two engines of one configuration known to be alike."""
        if self.is_live:
            return self.effect()
        if self.starts_count("trial") < TRIAL_STARTS:
            half = replace(self.wish.spend, total=self.wish.spend.total / 2)    # what two engines leave to the pairs
            return judge(self.pairs, half, self.wish.aim, OneEngine())
        return judge(self.pairs, self.wish.spend, self.wish.aim, UNBIASED)

    def rows(self) -> list[int]:
        """Pairs of each start of the trial's own."""
        return [s.pairs_count for s in self.starts if s.kind == "trial"]

    def part_is_used(self, began_s: float) -> bool:
        """Of the first start: half of the time, and of the pairs where they are counted. `began_s`: its first pair."""
        if self.is_live or self.starts_count("trial") == TRIAL_STARTS:
            return False
        most = self.wish.pairs_most
        share_s = first_share_s(self.left_s + time.monotonic() - began_s, self.boot_s, self.pair_s, self.noise_starts())
        return time.monotonic() - began_s >= share_s or (most is not None and 2 * len(self.pairs) >= most)

    def take_in(self, bench: Bench, kind: Kind) -> None:
        """What two engines showed beside their pairs."""
        for role, timings in bench.requests.items() if kind == "trial" else ():
            self.requests[role].extend(timings)
        self.notes.extend(bench.notes())
        self.client_bound.extend(bench.client_bound)
        self.blocks_count += bench.blocks_count

    def outcome(self) -> Outcome:
        effect = self.effect() if self.pairs else None
        word, reason = self._verdict(effect)
        late = "that it is faster was found when its engines had ended. Another trial finds it sooner: their own difference is kept"  # noqa: E501
        never = late if word == "better" else "the candidate was not found faster"
        notes = [*self.notes, *(effect.notes if effect else ()), *self._of_the_client()]
        return Outcome(
            trial_id=self.trial_id, began_ns=self.began_wall_ns, took_ns=int((time.monotonic() - self.began_s) * S_NS),
            candidate=words(self.known.settings), settings={s.knob: s.value for s in self.known.settings}, word=word,
            reason=reason, conditions=self.known.conditions, starts=tuple(self.starts), pairs=tuple(self.pairs),
            effect=effect, fidelity=self.fidelity, fidelity_blind="" if self.fidelity else self.fidelity_blind or never,
            troubles=tuple(self.troubles), notes=tuple(dict.fromkeys(notes)), folder=self.lab.folder,
            requests=spreads(self.requests),
        )  # fmt: skip

    def _verdict(self, effect: Effect | None) -> tuple[str, str]:
        """A candidate's trouble is its verdict; the present configuration's leaves none."""
        for trouble in self.troubles:
            return (trouble.word if trouble.role == "candidate" else "inconclusive"), str(trouble)
        if effect is None:
            took = f"the engines took {self.boot_s:.0f} s to start"
            return "inconclusive", f"the time ended before the first pair; {took}"
        if len(self.client_bound) > CLIENT_BOUND_RATIO * self.blocks_count:
            return "inconclusive", f"the client was the bottleneck: {self.client_bound[-1]}"
        return effect.word, effect.reason

    def _of_the_client(self) -> list[str]:
        if not self.client_bound:
            return []
        count = len(self.client_bound)
        return [f"in {count} of {self.blocks_count} blocks the client was slow: {self.client_bound[-1]}"]
