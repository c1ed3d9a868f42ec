"""Two engines and prompts → what a verdict rests on: answers of both, scored on the reference, until time is over.

    round 1   reference answers · candidate answers · reference answers again      many at once, as they are served
              all of them shown to the reference, one answer to the candidate      one by one: batching moves numbers
    round 2   the next prompts …

The reference answers before and after the candidate: what differs between the two is the floor. No request has a seed
of its own; the requests of a round go out in an order that is drawn for each arm, so two engines that begin in the same
state do not give the same answers.

Both arms may be one engine that is set anew for each (`Turn`): what is asked of an arm is asked while it is its turn.
Prefixes are cached for each arm apart then, or the candidate would answer behind what the reference has computed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx

from pellucid.collect.client.scores import Scores
from pellucid.collect.client.scoring import (
    TOP_COUNT,
    Answer,
    Asked,
    Fault,
    Served,
    generate,
    score,
    served_model,
)
from pellucid.core.clock import Clock
from pellucid.core.errors import PellucidError
from pellucid.core.units import S_NS
from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE, Answered
from pellucid.tune.fidelity.judge import Evidence, Trouble
from pellucid.workload.neutral import Prompt

WAKING_S = 180.0         # the first scores may wait for a compiler: 20 s where nothing else ran
SLOWER = 5               # chosen: a candidate may be slow; one that takes so many times as long is no candidate
UNNAMED = "unnamed"      # task of prompts that have none


@dataclass(frozen=True, slots=True)
class Plan:
    budget_ns: int
    max_tokens: int = 64             # of an answer whose prompt does not say
    answers_count: int = 2           # to each prompt: by the candidate, and by the reference before and after it
    concurrent_count: int = 8        # requests at once
    round_count: int = 8             # prompts in a round
    timeout_s: float = 60.0          # so long a candidate may take, or SLOWER times the reference's round
    floor_every: int = 4             # of so many texts one is shown to the reference twice
    seed: int = 0                    # of the order


@dataclass(frozen=True, slots=True)
class Turn:
    """Of an arm that shares its engine. Both raise PellucidError."""

    begin: Callable[[], None]        # the engine is this arm's from here on
    still: Callable[[], None]        # it has been since


@dataclass(slots=True)
class Arm:
    name: str
    http: httpx.AsyncClient
    turn: Turn | None = None         # None: it has an engine of its own
    served: Served = field(default_factory=lambda: Served("", None))

    @property
    def cache_salt(self) -> str | None:
        return self.name if self.turn else None


@dataclass(slots=True)
class _Gathered:
    answers: list[Answered] = field(default_factory=list)
    pairs: list[tuple[Scores, Scores]] = field(default_factory=list)
    floor: list[tuple[Scores, Scores]] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    def fault(self, arm: str, during: str, fault: Fault) -> None:
        self.troubles.append(Trouble(arm, fault.kind, during, fault.says))


async def gather(reference: Arm, candidate: Arm, prompts: Sequence[Prompt], plan: Plan, clock: Clock) -> Evidence:
    """Ends early at the first trouble: with it there is no verdict but that."""
    began_ns, took_ns, done = clock(), 0, 0
    found, pick = _Gathered(), random.Random(plan.seed)
    for arm in (reference, candidate):
        if _begins(arm, found):
            await _wake(arm, found)
    short = [p for p in prompts if _fits(p, plan, (reference, candidate))]
    while done < len(short) and not found.troubles:
        round_ns = clock()
        if round_ns - began_ns + took_ns > plan.budget_ns:
            break
        group = list(enumerate(short))[done : done + plan.round_count]
        await _Round(reference, candidate, plan, found, pick).play(group, clock)
        done, took_ns = done + len(group), clock() - round_ns
    return Evidence(
        found.answers, found.pairs, found.floor, found.troubles, prompts_count=len(prompts), judged_count=done,
        too_long_count=len(prompts) - len(short), took_ns=clock() - began_ns,
    )  # fmt: skip


async def _wake(arm: Arm, found: _Gathered) -> None:
    """The first request for log-probabilities compiles, and may hold an engine up for 20 s: it is not one of ours."""
    served = await served_model(arm.http)
    if isinstance(served, Fault):
        found.fault(arm.name, "asked for its model", served)
        return
    arm.served = served
    told = await score(arm.http, served, (5, 6, 7, 8), 1)
    if isinstance(told, Fault):
        found.fault(arm.name, f"asked for {TOP_COUNT} log-probabilities a token", told)


def _begins(arm: Arm, found: _Gathered) -> bool:
    return arm.turn is None or _told(arm, arm.turn.begin, "given its turn", found)


def _ends(arm: Arm, found: _Gathered) -> bool:
    """What was asked of the arm was asked in its turn."""
    return arm.turn is None or _told(arm, arm.turn.still, "asked whether it is its turn still", found)


def _told(arm: Arm, ask: Callable[[], None], during: str, found: _Gathered) -> bool:
    try:
        ask()
    except PellucidError as error:
        found.fault(arm.name, during, Fault("lost", str(error)))
        return False
    return True


def _fits(prompt: Prompt, plan: Plan, arms: Sequence[Arm]) -> bool:
    """With its answer and the one token a scoring request makes. Of text the engine has to say it."""
    if isinstance(prompt.content, str):
        return True
    length = len(prompt.content) + (prompt.max_tokens or plan.max_tokens) + 1
    return all(arm.served.context_tokens is None or length <= arm.served.context_tokens for arm in arms)


@dataclass(slots=True)
class _Round:
    reference: Arm
    candidate: Arm
    plan: Plan
    found: _Gathered
    pick: random.Random

    async def play(self, group: Sequence[tuple[int, Prompt]], clock: Clock) -> None:
        began_ns = clock()
        before = await self._answers(self.reference, group)
        self.candidate.http.timeout = max(self.plan.timeout_s, SLOWER * (clock() - began_ns) / S_NS)
        served = await self._answers(self.candidate, group)
        after = await self._answers(self.reference, group)
        if self.found.troubles:
            return
        self._same_ids(before, served)      # and it is the reference's turn, since it answered last
        prompts = dict(group)
        first: dict[int, tuple[Answer, Scores]] = {}
        for arm, answers, later in ((REFERENCE, before, False), (CANDIDATE, served, False), (REFERENCE, after, True)):
            for index, answer in answers:
                scores = await self._scored(self.reference, answer)
                if scores is None:
                    return
                prompt = prompts[index]
                self.found.answers.append(Answered(
                    index, prompt.task or UNNAMED, arm, scores, answer.text, prompt.temperature,
                    prompt.response_format is not None, later,
                ))  # fmt: skip
                if answer.ids:
                    first.setdefault(index, (answer, scores))
        await self._forced(list(first.values()))

    async def _answers(self, arm: Arm, group: Sequence[tuple[int, Prompt]]) -> list[tuple[int, Answer]]:
        if self.found.troubles or not _begins(arm, self.found):
            return []
        asks = [(index, _asked(p, self.plan, arm)) for index, p in group for _ in range(self.plan.answers_count)]
        self.pick.shuffle(asks)
        gate = asyncio.Semaphore(self.plan.concurrent_count)

        async def one(asked: Asked) -> Answer | Fault:
            async with gate:
                return await generate(arm.http, arm.served, asked)

        replies = await asyncio.gather(*(one(asked) for _, asked in asks))
        for reply in replies:
            if isinstance(reply, Fault):
                self.found.fault(arm.name, "asked for an answer", reply)
        _ends(arm, self.found)
        return [(index, reply) for (index, _), reply in zip(asks, replies, strict=True) if isinstance(reply, Answer)]

    def _same_ids(self, before: Sequence[tuple[int, Answer]], served: Sequence[tuple[int, Answer]]) -> None:
        known = {index: answer.prompt_ids for index, answer in before}
        if others := [index for index, answer in served if answer.prompt_ids != known.get(index)]:
            says = f"prompt {others[0] + 1} has other token ids than on the reference: another tokenizer"
            self.found.fault(CANDIDATE, "asked for an answer", Fault("tokens", says))

    async def _forced(self, shown: Sequence[tuple[Answer, Scores]]) -> None:
        """The reference's answers, shown to it again, some of them; then all of them to the candidate."""
        for answer, scores in shown[:: self.plan.floor_every]:
            if (again := await self._scored(self.reference, answer)) is not None:
                self.found.floor.append((scores, again))
        if self.found.troubles or not _begins(self.candidate, self.found):
            return
        for answer, scores in shown:
            if (told := await self._scored(self.candidate, answer)) is not None:
                self.found.pairs.append((scores, told))
        _ends(self.candidate, self.found)

    async def _scored(self, arm: Arm, answer: Answer) -> Scores | None:
        if self.found.troubles:
            return None
        said = await score(arm.http, arm.served, (*answer.prompt_ids, *answer.ids), len(answer.prompt_ids))
        if isinstance(said, Fault):
            self.found.fault(arm.name, "shown an answer", said)
            return None
        return said


def _asked(prompt: Prompt, plan: Plan, arm: Arm) -> Asked:
    return Asked(prompt.content, prompt.max_tokens or plan.max_tokens, prompt.temperature, prompt.top_p,
                 prompt.top_k, prompt.response_format, arm.cache_salt)  # fmt: skip
