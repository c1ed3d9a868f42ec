"""What the loop decides, done: engines booted, traffic sent, proposers asked. Actions in, events out.

    desk = Desk(wish, home, session, environ, launcher, say, journal_state)
    for event in desk.perform(RunTrial(…)): …        TrialStarted, a Peeked after each pair, SpeedJudged or Broke

Every engine is one of ours, beside whatever serves: nothing that serves is touched, and taking back is ending ours. One
in which live settings were tried stays up for the next of that kind, until the machine is needed for anything else.
Both verdicts come of one trial, while its engines are there; where speed was told too late for the second, the two are
booted again for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pellucid.catalog.knobs.spelling import Engine, fitting
from pellucid.catalog.load import knobs
from pellucid.catalog.servers.command_line import understood
from pellucid.core.errors import Failed
from pellucid.core.units import S_NS, duration
from pellucid.store.read import open_run
from pellucid.tune import events as e
from pellucid.tune.command import Command, changed, shareable
from pellucid.tune.effect.spend import Spend
from pellucid.tune.guard import Situation, guard
from pellucid.tune.loop import (
    Action,
    Diagnose,
    Finish,
    Guard,
    JudgeFidelity,
    Keep,
    Observe,
    Propose,
    RollBack,
    RunTrial,
)  # fmt: skip
from pellucid.tune.propose import Answer, Brief, listed, rules, together, twin
from pellucid.tune.propose.twin import Promise
from pellucid.tune.space import Candidate, Value, merged, present_value, words
from pellucid.tune.state import State
from pellucid.verbs.loop.trial.arms.resident import Resident
from pellucid.verbs.loop.trial.lab import Lab
from pellucid.verbs.loop.trial.outcome import Outcome
from pellucid.verbs.loop.trial.run import looks
from pellucid.verbs.loop.trial.wish import Say
from pellucid.verbs.loop.trial.wish import Wish as TrialWish
from pellucid.verbs.loop.tuning import answers, judged
from pellucid.verbs.loop.tuning.foreseen import foreseen
from pellucid.verbs.loop.tuning.observe import Seen, observe
from pellucid.verbs.loop.tuning.room import device_room, geometry_of, host_room
from pellucid.verbs.loop.tuning.wish import Wish
from pellucid.verbs.why import engine_of, why

Ask = Callable[[Brief], Answer]
ALONE = Spend(number=1)
NOT_RECORDED: dict[str, Any] = {
    "verdict": "It was not recorded, since its Python has no probe: no rule can judge it, and none proposes.",
    "findings": [],
}  # fmt: skip
SEEDS = 1_000_003          # between seeds of two trials: an engine that stays up is to know no prompt of the last one
LEAST_PAIRS = 8            # below it no word can come, at the first trial's level (docs/log/0007)


@dataclass(slots=True)
class Desk:
    wish: Wish
    home: Path
    session: str
    environ: Mapping[str, str]
    launcher: Callable[[Path, bool], Sequence[str]]
    say: Say
    state: Callable[[], State]                  # of all that was written
    ask: Ask | None = None                      # an outside proposer that runs
    seen: Seen | None = None
    promised: tuple[str, tuple[Promise, ...]] | None = None      # run, and what its twin holds to be worth a trial
    observed: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    resident: Resident = field(default_factory=Resident)

    def close(self) -> None:
        """No engine outlives the session."""
        self.resident.end()

    def perform(self, action: Action) -> Iterable[e.AnyEvent]:
        match action:
            case Observe():
                return self._observe(action)
            case Diagnose():
                return self._diagnose(action)
            case Propose():
                return [self._proposed(action)]
            case Guard():
                return [self._guarded(action)]
            case RunTrial():
                return self._trial(action)
            case JudgeFidelity():
                return [self._fidelity(action)]
            case Keep():
                return [e.Kept(action.trial, self._to_keep(action.proposal.candidate))]
            case RollBack():
                return [e.RolledBack(action.trial, action.why)]
            case Finish():
                return [e.Finished(action.word, action.says)]

    def _observe(self, action: Observe) -> Iterator[e.AnyEvent]:
        what = words(action.present) if action.present else "the present configuration"
        self.resident.end()
        self.say(f"observing {what} under the workload, for {self.wish.observe_s:.0f} s")
        lab = self._lab(f"observed-{len(self.state().trials)}", self._trial_wish(self.wish.observe_s))
        self.seen = observe(lab, self._present(), self.wish.observe_s)
        says = f"served after {duration(int(self.seen.boot_s * S_NS))}, {self.seen.blocks_count} blocks of the workload"
        yield e.Observed(str(self.seen.run or ""), says)

    def _diagnose(self, action: Diagnose) -> Iterator[e.AnyEvent]:
        self.observed = why(Path(action.run)) if action.run else NOT_RECORDED
        self.say(self.observed["verdict"])
        yield e.Diagnosed(self.observed["verdict"], self.observed["findings"])

    def _proposed(self, action: Propose) -> e.AnyEvent:
        state = self.state()
        observed = self.observed or (why(Path(state.run)) if state.run else NOT_RECORDED)
        brief = Brief(self._engine(), observed, state.findings, state, frozenset(action.seen), self._left_ns())
        found = [rules.propose(brief)] if self.wish.rules else []
        if self.wish.twin and state.run:
            if self.promised is None or self.promised[0] != state.run:
                goal = self.wish.aim().goal
                self.promised = (state.run, foreseen(Path(state.run), self.wish.limits, goal, self.say))
            found.append(twin.propose(self.promised[1], brief))
        if self.wish.listed:
            path = Path(self.wish.listed)
            found.append(listed.propose(listed.read_list(path.read_bytes(), path.name, brief.engine), brief))
        if self.ask is not None:
            found.append(self.ask(brief))
        answer = together(tuple(found), brief.seen)
        return e.Proposed(answer.proposals, answer.done, answer.trouble)

    def _guarded(self, action: Guard) -> e.AnyEvent:
        ruling = guard(action.proposal.candidate, self._situation(action.proposal.candidate))
        if not ruling.allowed:
            self.say(f"refused {words(action.proposal.candidate)}: {ruling.reason}")
        return e.Guarded(ruling.allowed, ruling.check, ruling.reason, ruling.notes, ruling.way)

    def _trial(self, action: RunTrial) -> Iterator[e.AnyEvent]:
        state, candidate = self.state(), action.proposal.candidate
        self.say(f"trial {action.trial}: {words(candidate)}, because {action.proposal.why or action.proposal.proposer}")
        command, live = shareable(self._changed(merged(state.present, candidate))), action.way == "live"
        yield e.TrialStarted(action.trial, action.way, action.error_ratio, command.argv, dict(command.env),
                             self._old_values(candidate) if live else {})  # fmt: skip
        if not live:
            self.resident.end()
        settings = tuple(f"{s.knob}={s.value}" for s in candidate)
        lasts_s = min(self.wish.trial_s, action.at_most_ns / S_NS)
        plain = self._trial_wish(lasts_s, settings, self._present(), Spend(action.trial))
        seed = self.wish.seed + SEEDS * action.trial
        wish = replace(plain, live=live, resident=self.resident, traffic=replace(plain.traffic, seed=seed))
        try:
            outcome = yield from judged.peeks(action.trial, looks(wish, self._with_variables(state), self.say))
        except Failed as error:
            yield e.Broke("loop", f"the present configuration did not serve: {error}")
            return
        self.outcomes[action.trial] = outcome
        yield judged.speed(action.trial, outcome)

    def _fidelity(self, action: JudgeFidelity) -> e.AnyEvent:
        outcome = self.outcomes.get(action.trial)
        found = outcome.fidelity if outcome else None
        if found is None:
            self.resident.end()
            self.say("its engines have ended: both are booted again for the verdict on answers")
            state = self.state()
            here, there = self._present(), self._changed(merged(state.present, action.proposal.candidate))
            lab = self._lab(f"answers-{action.trial}", self._trial_wish(self.wish.fidelity_s, (), here))
            again = answers.compare(lab, here, there, self.wish, action.at_most_ns)
            if isinstance(again, str):
                return e.FidelityJudged(action.trial, "blind", again)
            found = again
        return e.FidelityJudged(action.trial, found.word, found.reason, found.json())

    def _lab(self, part: str, wish: TrialWish) -> Lab:
        lab = Lab.of(wish, self.environ, f"{self.session}-{part}")
        lab.folder.mkdir(parents=True, exist_ok=True)
        return lab

    def _trial_wish(
        self, budget_s: float, settings: tuple[str, ...] = (), command: Command | None = None, spend: Spend = ALONE
    ) -> TrialWish:
        wish = self.wish
        return TrialWish(
            settings=settings, command=command.argv if command else wish.command, workload=Path(wish.workload),
            home=self.home, launcher=self.launcher, budget_s=budget_s, aim=wish.aim(), slo=wish.limits,
            block_s=wish.block_s, traffic=wish.traffic, fidelity_s=wish.fidelity_s, spend=spend,
        )  # fmt: skip

    def _engine(self) -> Engine:
        """As it was observed. Raises Failed where its recording does not say what it is."""
        if self.seen is not None:
            return self.seen.engine
        run = self.state().run
        found = engine_of(open_run(Path(run))) if run else None
        return found or Engine(understood(self.wish.command).engine, "", {})

    def _changed(self, settings: Any) -> Command:
        return changed(Command(self.wish.command), settings, self._engine())

    def _present(self) -> Command:
        present = self.state().present
        return self._changed(present) if present else Command(self.wish.command)

    def _with_variables(self, state: State) -> Mapping[str, str]:
        return {**self.environ, **dict(self._present().env)} if state.present else self.environ

    def _left_ns(self) -> int:
        state = self.state()
        return state.left_ns(state.last_ns)

    def _live(self) -> frozenset[str]:
        """What this engine takes while it runs; nothing where it has no probe."""
        engine = self._engine()
        fits = ((knob, fitting(knob, engine)) for knob in knobs()) if engine.config else ()
        return frozenset(knob for knob, spelling in fits if spelling is not None and spelling.probe)

    def _old_values(self, settings: Candidate) -> dict[str, Value]:
        """Of live knobs, as far as they are known: what an engine says of itself, or what was kept over it."""
        kept = {s.knob: s.value for s in self.state().present}
        found = {s.knob: kept.get(s.knob, present_value(s.knob, self._engine())) for s in settings}
        return {knob: value for knob, value in found.items() if value is not None}

    def _to_keep(self, settings: Candidate) -> str:
        command = self._changed(merged(self.state().present, settings))
        live = settings and all(s.knob in self._live() for s in settings)
        at_once = "; an engine that runs under live control takes it without a restart" if live else ""
        return f"start the engine so: {' '.join(shareable(command).argv)}{at_once}"

    def _situation(self, settings: Candidate) -> Situation:
        state, engine = self.state(), self._engine()
        model = self.seen.model if self.seen else str(engine.config.get("model") or "")
        geometry, _ = geometry_of(model or "")
        on_host = engine.config.get("device") in (None, "cpu")
        boot_s = self.seen.boot_s if self.seen else 0.0
        live = self._live()
        boots = 2 if not settings or any(s.knob not in live for s in settings) else 0 if self.resident.is_up else 1
        least_s = boots * boot_s + 2 * LEAST_PAIRS * self.wish.block_s
        return Situation(
            engine=engine, geometry=geometry, command=Command(self.wish.command), present=state.present,
            tried=state.tried, room=host_room(None) if on_host else device_room(0), live=live, control=True,
            beside=True, may_restart=False, left_ns=self._left_ns(), trial_ns=int(least_s * S_NS),
        )  # fmt: skip
