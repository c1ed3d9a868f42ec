"""`pellucid predict`: what another setting or another load would do to a recorded engine, before anybody tries it.

    answer = what_if(folder, Wish(settings=("max_num_seqs=64",), load_ratio=1.5))
    answer.json()      {"load_ratio": 1.5, "recorded": {…}, "again": {…}, "present": {…}, "candidate": {…}, …}

    recorded    what was measured
    again       what the twin says of the same: how far to trust it
    present     the engine as it is, under the load that is asked about
    candidate   with the settings that are asked about, under the same load
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import percent
from pellucid.sim.engine.request import Ask
from pellucid.sim.engine.run import run
from pellucid.sim.engine.settings import Settings
from pellucid.sim.outcome import measures, of_run
from pellucid.sim.predict import Also, Player, Predicted, Twin, predict
from pellucid.sim.step.energy import JOULES, token_joules
from pellucid.store.read import RunReader, open_run
from pellucid.tune.slo import read_slo
from pellucid.tune.space import Candidate, candidate, read_setting
from pellucid.verbs.predict.asks import asks_of
from pellucid.verbs.predict.good import goodput_of
from pellucid.verbs.predict.own_scheduler import own_scheduler
from pellucid.verbs.predict.settings import changed
from pellucid.verbs.predict.twin import TwinOf, known_engine, twin_of
from pellucid.workload.file import read
from pellucid.workload.recorded import recorded
from pellucid.workload.scaled import scaled

FAR_RATIO = 0.02      # of the predicted time beyond the steps seen, from which on it is said


@dataclass(frozen=True, slots=True)
class Wish:
    settings: tuple[str, ...] = ()     # NAME=VALUE
    load_ratio: float = 1.0            # of the workload's arrival rate
    workload: Path | None = None       # None: the run's own requests
    also: tuple[Path, ...] = ()        # other runs of the engine, whose steps are learnt from too
    slo: str = ""                      # as typed; with it goodput is told
    python: str = ""                   # an engine's: its own scheduler follows the schedule


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and its answer."""

    settings: Settings
    predicted: Predicted

    def json(self) -> dict[str, Any]:
        found = self.predicted
        return {
            "settings": asdict(self.settings),
            "measures": {name: None if v is None else asdict(v) for name, v in found.measures.items()},
            "served_count": found.served_count, "refused_count": len(found.refused), "steps_count": found.steps_count,
            "preemptions_count": found.preemptions_count, "running_mean_count": found.running_mean_count,
            "waiting_mean_count": found.waiting_mean_count, "kv_used_peak_ratio": found.kv_used_peak_ratio,
            "busy_ratio": found.busy_ratio, "outside": found.outside,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    run: str
    wish: Candidate
    load_ratio: float
    model: dict[str, Any]
    recorded: dict[str, float | None]
    again: Asked
    present: Asked
    candidate: Asked
    notes: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        return {
            "run": self.run, "set": {s.knob: s.value for s in self.wish}, "load_ratio": self.load_ratio,
            "model": self.model, "recorded": self.recorded, "again": self.again.json(),
            "present": self.present.json(), "candidate": self.candidate.json(), "notes": list(self.notes),
        }  # fmt: skip


def what_if(folder: Path, wish: Wish) -> Answer:
    """Raises AskedWrongly for a setting or a load that makes no sense, CannotAnswer where the run cannot tell."""
    if not wish.python:
        return _what_if(folder, wish, run)
    with own_scheduler(wish.python, known_engine(open_run(folder))) as player:
        return _what_if(folder, wish, player)


def _what_if(folder: Path, wish: Wish, player: Player) -> Answer:
    if not wish.load_ratio > 0:
        raise AskedWrongly(f"--load {wish.load_ratio:g} is no load. Try: --load 1.5x")
    reader = open_run(folder)
    made = twin_of(reader, [open_run(path) for path in wish.also])
    chosen = candidate(read_setting(text, made.engine) for text in wish.settings)
    settings = changed(made.settings, chosen)
    own, also = recorded(reader, folder.name), goodput_of(read_slo(wish.slo) if wish.slo else ())

    def asked(asks: Sequence[Ask], under: Settings) -> Asked:
        return Asked(under, predict(asks, under, made.twin, also, player=player))

    again = now = asked(asks := asks_of(own), made.settings)
    if wish.workload is not None or wish.load_ratio != 1:
        load = own if wish.workload is None else read(wish.workload)
        now = asked(asks := asks_of(scaled(load, speed=wish.load_ratio)), made.settings)
    then = now if settings == made.settings else asked(asks, settings)
    notes = (*made.notes, *_notes(then.predicted))
    return Answer(folder.name, chosen, wish.load_ratio, model_json(made), _recorded(reader, also, made.twin), again,
                  now, then, notes)  # fmt: skip


def _recorded(run: RunReader, also: Also, twin: Twin) -> dict[str, float | None]:
    timed = of_run(run)
    return {**measures(timed), **also(timed), **({} if twin.energy is None else {JOULES: token_joules(run)})}


def model_json(made: TwinOf) -> dict[str, Any]:
    model = made.twin.model
    return {
        "steps_count": model.steps_count, "delay_ns": made.twin.delay_ns, "alone_ns": model.alone_ns,
        "ranges": [asdict(r) for r in model.ranges],
    }  # fmt: skip


def _notes(found: Predicted) -> list[str]:
    notes = [f"{percent(ratio)} of the predicted time has more {name} than any step that was recorded: there the "
             "interval is a guess. Try: record under more load" for name, ratio in found.outside.items()
             if ratio >= FAR_RATIO]  # fmt: skip
    if found.off.level < 0.85:
        notes.append(f"the intervals hold at {percent(found.off.level)} at most: there are "
                     f"{found.off.stretches_count} stretches to judge them by. Try: record for longer")  # fmt: skip
    if found.refused:
        notes.append(f"{len(found.refused)} requests would be refused; the first: {found.refused[0].reason}")
    if found.busy_ratio > 0.98 and found.waiting_mean_count > 1:
        notes.append("the engine has no time left under this load: the queue grows for as long as it lasts, so TTFT "
                     "says how long that was, and nothing else")  # fmt: skip
    return notes
