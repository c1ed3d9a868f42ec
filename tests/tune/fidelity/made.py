"""Two arms of a model of random numbers: each position of each prompt has a distribution of its own over 60 tokens.

    answers = arms(seed=1, prompts=40, temperature=1.3)      the candidate samples at 1.3, the reference at 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.collect.client.scores import Floats, Ints, Scores
from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE, Answered
from pellucid.tune.fidelity.judge import Evidence, Trouble

VOCABULARY, TOP = 60, 20


@dataclass(frozen=True)
class Arms:
    prompts: int = 40
    tokens: int = 24
    temperature: float = 1.0             # the candidate's
    asked: float | None = None           # what both were asked for; None: nothing, which is 1
    tasks: tuple[str, ...] = ("chat", "code")
    hit_task: str | None = None          # the only task in which the candidate's temperature is another
    answers: int = 2


def arms(seed: int, how: Arms) -> list[Answered]:
    random = np.random.default_rng(seed)
    found = []
    for prompt in range(how.prompts):
        task = how.tasks[prompt % len(how.tasks)]
        logits = random.normal(0, 2.0, (how.tokens, VOCABULARY))
        heat = how.temperature if how.hit_task in (None, task) else (how.asked or 1.0)
        for arm, later, own in ((REFERENCE, False, how.asked or 1.0), (CANDIDATE, False, heat),
                                (REFERENCE, True, how.asked or 1.0)):  # fmt: skip
            for _ in range(how.answers):
                scores = shown(logits, sampled(logits, own, random))
                found.append(Answered(prompt, task, arm, scores, "text", how.asked, later=later))
    return found


def sampled(logits: Floats, temperature: float, random: np.random.Generator) -> Ints:
    noise = random.gumbel(size=logits.shape)
    picked: Ints = (logits / temperature + noise).argmax(axis=1)
    return picked


def shown(logits: Floats, ids: Ints) -> Scores:
    logps = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    top = np.argsort(-logps, axis=1)[:, :TOP]
    return Scores(ids, logps[np.arange(len(ids)), ids], top, np.take_along_axis(logps, top, axis=1))


def evidence(answers: list[Answered], noise: float = 0.0, troubles: tuple[Trouble, ...] = ()) -> Evidence:
    """`noise`: of the candidate's logits where it is shown tokens."""
    random = np.random.default_rng(9)
    pairs, floor = [], []
    for _ in range(20):
        logits = random.normal(0, 2.0, (24, VOCABULARY))
        ids = sampled(logits, 1.0, random)
        pairs.append((shown(logits, ids), shown(logits + random.normal(0, 1, logits.shape) * noise, ids)))
        floor.append((shown(logits, ids), shown(logits, ids)))
    prompts = len({a.prompt for a in answers})
    return Evidence(answers, pairs, floor, troubles, prompts, prompts)
