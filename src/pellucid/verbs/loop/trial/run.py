"""One trial from its wish to its outcome.

    outcome = run(wish, os.environ, say)
    outcome = yield from looks(wish, os.environ, say)      the same, with what is known after each pair on the way

    start 0  trial   |boot present|boot candidate|warm|ab|ba|ba|ab|…      what does not boot is known at once
    start 1… noise   |boot both|warm|ab|ba|…                              both the present configuration (`turns`)
    start n  trial   |boot both, places exchanged|warm|ba|ab|…

After each pair the verdict is asked for; the first word other than inconclusive ends it, and so does the budget. No
engine outlives this: not an exception, not a Ctrl-C, not a kill -9 (`launch/guardian`).
"""

from __future__ import annotations

import contextlib
import fcntl
import random
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pellucid.core.clock import anchor_now
from pellucid.core.errors import AskedWrongly, Failed, PellucidError
from pellucid.core.run import new_run_id
from pellucid.core.units import S_NS
from pellucid.tune.command import Command, changed
from pellucid.tune.effect.judge import Effect
from pellucid.tune.effect.pairs import toss
from pellucid.tune.space import candidate, problems, read_setting, words
from pellucid.verbs.loop.trial import noise
from pellucid.verbs.loop.trial.answers import judge_answers
from pellucid.verbs.loop.trial.arms.booted import Arm, Booted, Start, boot, seen
from pellucid.verbs.loop.trial.arms.place import Place, whole
from pellucid.verbs.loop.trial.arms.resident import Resident
from pellucid.verbs.loop.trial.arms.shared import shared
from pellucid.verbs.loop.trial.arms.trouble import Trouble
from pellucid.verbs.loop.trial.lab import Lab, noise_conditions
from pellucid.verbs.loop.trial.noise import Timed
from pellucid.verbs.loop.trial.outcome import Outcome, StartOf, keep
from pellucid.verbs.loop.trial.pairing import Bench
from pellucid.verbs.loop.trial.state import Known, Trial
from pellucid.verbs.loop.trial.turns import NOISE_PAIRS, Kind, leave
from pellucid.verbs.loop.trial.wish import Say, Wish

LOCK = "running.lock"      # in the folder of trials


class Stopped(Exception):
    """An arm's trouble ends the trial."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


Looks = Generator[Effect, None, Outcome]
Going = Generator[Effect, None, bool]      # whether there is to be another start


def run(wish: Wish, environ: Mapping[str, str], say: Say) -> Outcome:
    """Raises AskedWrongly where nothing can be tried, Failed where the present configuration does not serve."""
    found = looks(wish, environ, say)
    while True:
        try:
            next(found)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def looks(wish: Wish, environ: Mapping[str, str], say: Say) -> Looks:
    """Raises as `run`. Closed early it ends its engines, and there is no outcome."""
    now, began_s = anchor_now(), time.monotonic()
    trial_id = new_run_id(now.wall_ns)
    lab = Lab.of(wish, environ, trial_id)
    lab.folder.mkdir(parents=True)
    with only_one(lab.folder.parent / LOCK):
        return (yield from _run(Trial(lab, say, trial_id, now.wall_ns, began_s, random.Random(wish.traffic.seed))))


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Two trials at once would measure each other. Raises Failed while another one runs."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Failed("another trial is running here, and the two would measure each other. Wait for it") from error
        yield


def _run(trial: Trial) -> Looks:
    exchanged, kind = trial.coin.random() < 0.5, trial.next_kind()
    try:
        while kind and (yield from _start(trial, kind, exchanged)):
            exchanged ^= kind == "trial"
            kind = trial.next_kind()
    except Stopped as stopped:
        ours = kind == "noise"      # then both arms were the present configuration
        trial.troubles.append(replace(stopped.trouble, role="present") if ours else stopped.trouble)
    outcome = trial.outcome()
    keep(outcome)
    return outcome


def _start(trial: Trial, kind: Kind, exchanged: bool) -> Going:
    """Two engines from boot to end."""
    if trial.starts and not trial.has_time(kind):
        return False
    places = trial.lab.places[::-1] if exchanged and kind == "trial" else trial.lab.places
    used = (whole(trial.lab.machine),) if trial.is_live else places
    with _one_engine(trial) if trial.is_live else _engines(trial, kind, places) as (present, other):
        number = len(trial.starts)
        trial.starts.append(StartOf(number, kind, tuple(place.name for place in used), trial.boot_s, 0))
        bench = Bench(present, other, trial.known.pieces, trial.wish, number)
        try:
            return _measure_noise(trial, bench) if kind == "noise" else (yield from _measure(trial, bench))
        finally:
            trial.take_in(bench, kind)


@contextlib.contextmanager
def _one_engine(trial: Trial) -> Iterator[tuple[Arm, Arm]]:
    """Both arms on it: what is tried can be set while it runs."""
    start = trial.lab.start("present", Command(trial.wish.command), whole(trial.lab.machine), 0, control=True)
    resident = trial.wish.resident or Resident()

    def starting(one: Start) -> Booted:
        trial.say("starting the present configuration, in which the settings are put in and taken back while it runs")
        return _booted(trial, boot([one], trial.wish.boot_limit_s))[0]

    with contextlib.ExitStack() as stack:
        if trial.wish.resident is None:
            stack.callback(resident.end)
        only, was_up = stack.enter_context(resident.engine(start, starting))
        trial.found, trial.boot_s = _understand(trial, only), 0.0 if was_up else only.boot_s
        since = "it is up since an earlier trial" if was_up else f"it serves after {only.boot_s:.0f} s"
        trial.say(f"{since}; trying {words(trial.found.settings)} in it")
        present, other = shared(only, {s.knob: s.value for s in trial.found.settings})
        yield present, other
        try:
            present.use()      # taken back, for whoever comes next
        except PellucidError:
            resident.end()


@contextlib.contextmanager
def _engines(trial: Trial, kind: Kind, places: tuple[Place, Place]) -> Iterator[tuple[Arm, Arm]]:
    """Both, serving. The first time one after the other: the present one says how the candidate is spelled."""
    here, there = places
    present = trial.lab.start("present", Command(trial.wish.command), here, len(trial.starts))
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        if not trial.starts:
            trial.say(f"starting the present configuration on {here.name}")
            (first,) = _held(stack, _booted(trial, boot([present], trial.wish.boot_limit_s)))
            trial.found = _understand(trial, first)
            what = words(trial.found.settings)
            trial.say(f"it serves after {first.boot_s:.0f} s; starting with {what} on {there.name}")
            other = trial.lab.start("candidate", trial.found.command, there, 0)
            (second,) = _held(stack, _booted(trial, boot([other], trial.wish.boot_limit_s)))
        else:
            of_trial = kind == "trial"
            twice = "the present configuration twice, for the engines' own difference"
            what = words(trial.known.settings) if of_trial else twice
            trial.say(f"starting anew: {what}; {trial.left()}")
            command = trial.known.command if of_trial else Command(trial.wish.command)
            other = trial.lab.start("candidate", command, there, len(trial.starts))
            first, second = _held(stack, _booted(trial, boot([present, other], trial.wish.boot_limit_s)))
        trial.boot_s = time.monotonic() - began_s
        yield first, second


def _held(stack: contextlib.ExitStack, engines: list[Booted]) -> list[Booted]:
    """To be ended with the stack."""
    for one in engines:
        stack.callback(one.end)
    return engines


def _booted(trial: Trial, found: list[Booted | Trouble]) -> list[Booted]:
    """All of them, or none is left. Raises Stopped with the first that has trouble, Failed where there is nothing to
    compare with."""
    good = [one for one in found if isinstance(one, Booted)]
    bad = next((one for one in found if isinstance(one, Trouble)), None)
    if bad is None:
        return good
    for one in good:
        one.end()
    if bad.role == "present" and not trial.starts:
        raise Failed("\n  ".join([str(bad), *bad.log_tail, f"its log: {trial.lab.folder}"]))
    raise Stopped(bad)


def _understand(trial: Trial, present: Booted) -> Known:
    """The engine's version and configuration, and with them what the candidate is. Raises AskedWrongly, Stopped."""
    engine = seen(present)
    settings = candidate(read_setting(text, engine) for text in trial.wish.settings)
    if faults := problems(settings, engine):
        raise AskedWrongly(f"not tried: {'; '.join(faults)}")
    command = Command(trial.wish.command)
    if not trial.is_live:
        command = changed(command, settings, engine)
    pieces = trial.lab.pieces(present)
    trial.notes += pieces.notes
    if not engine.config:
        trial.notes.append("the engine's configuration is not known: its Python has no probe")
    known = Known(trial.lab.conditions(engine, present, pieces.left_out), settings, command, pieces)
    if fault := trial.lab.memory_fault(command):
        trial.found = known
        raise Stopped(Trouble("candidate", "does not fit", fault))
    return known


def _measure(trial: Trial, bench: Bench) -> Going:
    """Pairs of the trial's own, as many as these engines can tell."""
    _warm(bench)
    began_s, told_count, why = time.monotonic(), 0, ""
    while not why and trial.has_time_for_pair():
        trial.pairs.append(_pair(trial, bench).pair)
        effect, alone = trial.effect(), trial.effect_alone()
        told_count = told_count + 1 if alone.word != "inconclusive" else 0
        said = effect if effect.word != "inconclusive" else alone
        trial.say(f"trying {words(trial.known.settings)}: pair {len(trial.pairs)} ({trial.pairs[-1].order}), "
                  f"{effect.word}: {said.reason}; {trial.left()}")  # fmt: skip
        yield effect
        why = leave(effect.word, trial.rows(), told_count, trial.part_is_used(began_s))
    trial.is_told = told_count > 0
    if trial.pairs and trial.effect().word == "better":
        _judge_answers(trial, bench)
    return why not in ("", "decided")


def _judge_answers(trial: Trial, bench: Bench) -> None:
    """A faster candidate's answers beside those of the present configuration, while both are there."""
    if not trial.wish.fidelity_s:
        trial.fidelity_blind = "it was not asked for"
    else:
        trial.say(f"faster; are its answers the same? Up to {trial.wish.fidelity_s:.0f} s")
        budget_ns = int(trial.wish.fidelity_s * S_NS)
        found = judge_answers(bench.other, bench.present, trial.lab, budget_ns)
        trial.fidelity, trial.fidelity_blind = found, ""


def _measure_noise(trial: Trial, bench: Bench) -> bool:
    """A few pairs of one configuration, kept for other trials, too. Whether there is to be another start."""
    _warm(bench)
    measured: list[Timed] = []
    while len(measured) < NOISE_PAIRS and trial.has_time_for_pair():
        measured.append(_pair(trial, bench))
        trial.say(f"the engines' own difference: pair {len(measured)} of {NOISE_PAIRS}; {trial.left()}")
    if measured:
        noise.add(trial.noise_path(), noise_conditions(trial.known.conditions), measured)
    return trial.effect().word == "inconclusive"


def _warm(bench: Bench) -> None:
    if trouble := bench.warm():
        raise Stopped(trouble)


def _pair(trial: Trial, bench: Bench) -> Timed:
    """The next piece to both. Raises Stopped."""
    began_s = time.monotonic()
    found = bench.pair(trial.pieces_count, toss(trial.coin))
    if isinstance(found, Trouble):
        raise Stopped(found)
    trial.pieces_count += 1
    trial.pair_s = time.monotonic() - began_s
    trial.starts[-1] = replace(trial.starts[-1], pairs_count=trial.starts[-1].pairs_count + 1)
    return found
