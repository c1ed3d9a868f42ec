"""Events as a session has them, and a world that performs actions without an engine: what verbs do, on a desk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pellucid.tune import events as e
from pellucid.tune import loop
from pellucid.tune.effect.spend import Spend
from pellucid.tune.journal import Entry, line
from pellucid.tune.space import Setting, Value, candidate
from pellucid.tune.state import State, fold, replay

MIN_NS = 60_000_000_000
STARTED = e.Started(
    mode="tune", command=("serve", "m"), env={}, engine="vllm", engine_version="0.32.0", engine_config={},
    workload="chat.parquet", slo="ttft_p95<2s", maximise="goodput", budget_ns=30 * MIN_NS, error_ratio=0.01,
    may_restart=False, control=True,
)  # fmt: skip

ALLOWED = e.Guarded(True, "", "", way="beside")


def proposal(*settings: tuple[str, Value], source: str = "", claim: e.Claim | None = None) -> e.Proposal:
    return e.Proposal(candidate(Setting(*s) for s in settings), "rules" if source else "list", source, "because", claim)


def start(trial: int) -> e.TrialStarted:
    return e.TrialStarted(trial, "beside", Spend(trial, STARTED.error_ratio).level)


def better(trial: int, word: e.SpeedWord = "better", held: bool | None = True, ratio: float = 1.2) -> e.SpeedJudged:
    measures = (e.Measure("output_tokens_per_s", ratio, ratio - 0.1, ratio + 0.1, word),)
    return e.SpeedJudged(trial, word, measures, (e.Held("ttft_p95", held, "1.2 s"),), 12, 5 * MIN_NS)


def fidelity(trial: int, word: e.FidelityWord = "same") -> e.FidelityJudged:
    return e.FidelityJudged(trial, word, "512 prompts")


def state_after(*events: e.AnyEvent) -> State:
    state = State()
    for event in events:
        state = fold(state, event, 0)
    return state


class Killed(BaseException):
    """kill -9: nothing of this process runs any more."""


@dataclass
class World:
    """Answers actions by a script. What a real machine would have on it is in `running` and `live`."""

    proposals: tuple[e.Proposal, ...] = ()
    speed: e.SpeedWord = "better"
    fidelity: e.FidelityWord = "same"
    before: Callable[[str], object] = str      # called at every point where something may go wrong
    action_ns: int = MIN_NS
    now: int = 0
    entries: list[Entry] = field(default_factory=list)
    running: set[int] = field(default_factory=set)         # trial engines that are up
    serving: str = "as found"
    actions: list[str] = field(default_factory=list)

    def desk(self) -> loop.Desk:
        return loop.Desk(self.perform, self.record, lambda: replay(self.entries), lambda: self.now)

    def record(self, event: e.AnyEvent) -> int:
        before = self.entries[-1] if self.entries else None
        self.entries.append(line(before, e.kind_of(event), e.to_plain(event), self.now, self.now)[1])
        self.before(f"after {e.kind_of(event)}")
        return self.now

    def perform(self, action: loop.Action) -> Iterator[e.AnyEvent]:
        name = type(action).__name__
        self.actions.append(name)
        self.before(f"in {name}")
        self.now += self.action_ns
        match action:
            case loop.Observe():
                yield e.Observed("r1", "recorded")
            case loop.Diagnose():
                yield e.Diagnosed("queue", [])
            case loop.Propose(seen):
                yield e.Proposed(tuple(p for p in self.proposals if p.candidate not in seen), done=True)
            case loop.Guard():
                yield ALLOWED
            case loop.RunTrial():
                yield from self.trial(action)
            case loop.JudgeFidelity():
                yield fidelity(action.trial, self.fidelity)
            case loop.Keep():
                self.serving = f"trial {action.trial}"
                self.before("halfway through Keep")
                self.running.discard(action.trial)
                yield e.Kept(action.trial, "restarted")
            case loop.RollBack():
                self.running.discard(action.trial)
                kept = [t.number for t in replay(self.entries).trials if t.end == "kept"]
                self.serving = f"trial {kept[-1]}" if kept else "as found"
                yield e.RolledBack(action.trial, action.why)
            case loop.Finish():
                yield e.Finished(action.word, action.says)

    def trial(self, action: loop.RunTrial) -> Iterator[e.AnyEvent]:
        yield e.TrialStarted(action.trial, "beside", action.error_ratio)
        self.running.add(action.trial)
        self.before("halfway through RunTrial")
        yield e.Peeked(action.trial, 3, "so far", ())
        yield better(action.trial, self.speed)


def session(world: World, **started: Any) -> State:
    """A whole session in the world, from its first event."""
    first = e.Started(**{**{f: getattr(STARTED, f) for f in STARTED.__struct_fields__}, **started})
    state = fold(State(), first, world.record(first))
    return loop.run(state, world.desk())


def resumed(world: World) -> State:
    """What a new process does with the journal of one that was killed."""
    event = e.Resumed(0)
    state = replay(world.entries)
    return loop.run(fold(state, event, world.record(event)), world.desk())
