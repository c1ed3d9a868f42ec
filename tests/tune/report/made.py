"""Journals and outcomes of reports, as events and blocks written out."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pellucid.tune import events as e
from pellucid.tune.effect.aim import Aim, Guard
from pellucid.tune.effect.arms import OneEngine
from pellucid.tune.effect.judge import judge
from pellucid.tune.effect.pairs import Block, Pair
from pellucid.tune.effect.requests import Spread, Timing, spreads
from pellucid.tune.effect.spend import Spend
from pellucid.tune.fidelity.verdict import Difference, Fidelity, Forced, Task
from pellucid.tune.journal import Entry, line
from pellucid.tune.report.fold import of_session
from pellucid.tune.report.measured import Fault, Measured, Start, Where
from pellucid.tune.report.shape import Chain, Report
from tests.tune.session import ALLOWED, MIN_NS, STARTED, better, fidelity, proposal, start

SESSION = "20261130-091500-a1b2"
GOAL = "output_tokens_per_s"
A = proposal(("step_token_budget", 512), source="batch.prefill_stalling_decode", claim=e.Claim(GOAL, 0.05, 0.3))
B = proposal(("max_running_requests", 64))
SEEN = (e.Observed("r1", "recorded 4 min"), e.Diagnosed("queue", [{"id": "queue.sequence_cap_binding"}]))
WHERE = Where("x86_64, AMD EPYC", ("core 0", "core 1"), "engine", "0.32.0", "tiny-dense", ("serve", "m"),
              "chat.parquet", {"speed_ratio": 1.0, "seed": 7}, 10_000_000_000, {"too long": 3})  # fmt: skip
KEPT = (STARTED, *SEEN, e.Proposed((A, B), True), ALLOWED, start(1), better(1), fidelity(1), e.Kept(1, "restarted"))
DONE = e.Finished("done", "")


def journal(*events: e.AnyEvent, step_ns: int = MIN_NS) -> tuple[Entry, ...]:
    """An entry a minute."""
    entries: list[Entry] = []
    for event in events:
        now = len(entries) * step_ns
        before = entries[-1] if entries else None
        entries.append(line(before, e.kind_of(event), e.to_plain(event), now, now)[1])
    return tuple(entries)


def whole(entries: tuple[Entry, ...], running: bool = False) -> Chain:
    return Chain(len(entries), entries[-1].hash if entries else None, (), 0, running)


def told(*events: e.AnyEvent, outcomes: dict[int, Measured | str] | None = None, running: bool = False) -> Report:
    entries = journal(*events)
    return of_session(SESSION, entries, outcomes or {}, whole(entries, running))


def blocks(pairs_count: int, factor: float, seed: int = 0) -> tuple[Pair, ...]:
    """Arms that differ by a factor, with noise of 2 %."""
    coin = random.Random(seed)

    def block(speed: float) -> Block:
        fast = speed * coin.lognormvariate(0, 0.02)
        slow = 1 / fast
        return Block(400 * fast, 25e6 * slow, 110e6 * slow, 900e6 * slow, 48e6 * slow, 6.2e9 * slow, 40, 0, 38,
                     10_000_000_000)  # fmt: skip

    return tuple(Pair(block(1), block(factor), "ab" if coin.random() < 0.5 else "ba") for _ in range(pairs_count))


def requests(factor: float) -> tuple[Spread, ...]:
    """Of 40 requests an arm, one failed."""
    times = [1.02**n for n in range(39)]
    arms = {"present": [Timing(True, 80e6 * t, 25e6 * t) for t in times],
            "candidate": [Timing(True, 80e6 * t / factor, 25e6 * t / factor) for t in times]}  # fmt: skip
    return spreads({"present": [*arms["present"], Timing(False, None, None)], "candidate": arms["candidate"]})


def outcome(factor: float = 1.08, pairs_count: int = 24, answers: Fidelity | None = None, **more: Any) -> Measured:
    pairs = blocks(pairs_count, factor)
    effect = judge(pairs, Spend(1), Aim(GOAL, guards=(Guard("itl_p95_ns"),)), OneEngine()) if pairs else None
    made = Measured(
        trial_id="20261130-093000-ffff", began_ns=MIN_NS, took_ns=9 * MIN_NS, candidate="step_token_budget=512",
        settings={"step_token_budget": 512}, word=effect.word if effect else "does not boot",
        reason=effect.reason if effect else "the candidate does not boot: code 1", conditions=WHERE,
        starts=(Start(0, "trial", 14.0, pairs_count),), pairs=pairs, effect=effect, fidelity=answers,
        fidelity_blind="" if answers else "it was not asked for", troubles=(), notes=(),
        requests=requests(factor) if pairs else (),
    )  # fmt: skip
    return replace(made, **more)


def same() -> Fidelity:
    differences = (Difference("log-probability", "nats", "of served tokens", 0.004, -0.02, 0.03, 0.61, 0.002, 0.8),)
    tasks = (
        Task("all", "same", "within 0.1 nats", 512, 1024, 2048, 0.02, 0.1, None, differences),
        Task("chat", "inconclusive", "too few prompts", 6, 12, 24, None, 0.3, 40, differences),
    )
    forced = Forced("same", "within the limit", 0.001, 0.0005, 0.002, 0.02, 0.9987, 0.0002, 0.9999, 64, 8192)
    return Fidelity("same", "512 prompts, the arms differ by less than 0.1 nats", tasks, forced, ("one note",))


def boot_fault() -> Fault:
    return Fault("candidate", "does not boot", "ended with code 1", ("Traceback", "ValueError: no such thing"))


def many(trials_count: int) -> Iterable[e.AnyEvent]:
    """A session of trials of which none is kept."""
    proposals = tuple(proposal(("max_running_requests", n)) for n in range(1, trials_count + 1))
    yield from (STARTED, *SEEN, e.Proposed(proposals, True))
    for n in range(1, trials_count + 1):
        yield from (ALLOWED, start(n))
        yield from (e.Peeked(n, k, "so far", (e.Measure(GOAL, 0.9, 0.8, 1.1),)) for k in range(1, 61))
        yield from (better(n, "no difference", ratio=1.0), e.RolledBack(n, "speed: no difference"))
    yield DONE
