"""What the verdict on fidelity finds: answers corrupted in known ways, judged again and again on parts of the prompts.

    .venv/bin/python -m bench.loop.fidelity_power [--recording FILE] [--prompts 24] [--tries 100]

A real engine answers our own prompts; then it, or one beside it that is configured otherwise, answers them wrongly, and
all answers are scored on it. Kinds that are in the recording already are not recorded again. Of the prompts some are
drawn, for each number of prompts as many times as there are tries, and judged as `fidelity` does: two answers of the
candidate against four of the reference, and without corruption two of the reference's against its other two. Of all
prompts there is one draw only. Goal: of tries without corruption, at most 1 % more than the level are called different.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import msgspec
import numpy as np

from pellucid.collect.client.scores import Scores
from pellucid.collect.client.scoring import Asked, Fault, Served, client, generate, score, served_model
from pellucid.testing.engine import stop
from pellucid.tune.fidelity.answers import CANDIDATE, REFERENCE, Answered, measured
from pellucid.tune.fidelity.permute import compare, grouped
from pellucid.tune.fidelity.power import Corruption, halved, smallest_found
from pellucid.tune.fidelity.verdict import LEVEL
from pellucid.workload.neutral import neutral
from tools import real_engine
from tools.recording import launch

MODEL, TOKENS, AT_ONCE, VOCABULARY = "gemma-3-270m", 48, 8, 262_144
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "16")
SIZES = (6, 12, 24)
NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
GROUPS = [frozenset(("chat", "code", "json", "copy"))]


class Kept(msgspec.Struct):
    """An answer and what the reference says of it."""

    prompt: int
    prompt_ids: list[int]
    ids: list[int]
    text: str
    logps: list[float] = []
    top_ids: list[list[int]] = []
    top_logps: list[list[float]] = []


class Recording(msgspec.Struct):
    kinds: dict[str, list[Kept]] = {}


@dataclass(frozen=True)
class Bench:
    asks: tuple[Asked, ...]
    tasks: tuple[str, ...]
    file: Path
    recording: Recording

    def keep(self, kind: str, answers: list[Kept]) -> None:
        self.recording.kinds[kind] = answers
        self.file.write_bytes(gzip.compress(msgspec.json.encode(self.recording), 3))
        print(f"recorded: {kind}, {len(answers)} answers", flush=True)


Ask = Callable[[Bench, int, random.Random], Asked]


def heated(temperature: float) -> Ask:
    return lambda bench, index, _: replace(bench.asks[index], temperature=temperature)


def other_block(bench: Bench, index: int, _: random.Random) -> Asked:
    """16 tokens in the middle of the prompt are those of the next prompt of the task: a KV block of somebody else's."""
    known = {k.prompt: k.prompt_ids for k in bench.recording.kinds["reference"]}
    own, following = known[index], known[(index + 4) % len(bench.asks)]
    start = max(1, len(own) // 2 - 8)
    block = (following * 16)[start : start + 16]
    return replace(bench.asks[index], prompt=(*own[:start], *block, *own[start + 16 :]))


SERVED: dict[str, Ask] = {"temperature 0.9": heated(0.9), "temperature 1.1": heated(1.1),
                          "temperature 1.3": heated(1.3), "16 prompt tokens of another": other_block}  # fmt: skip
REPLACED = {"1% of tokens drawn at random": 0.01, "4% of tokens drawn at random": 0.04}
ENGINES = {"drafts of an ngram": ("--speculative-config", NGRAM), "weights with 5% noise": ("--model", "{noisy:0.05}")}


async def answered(http: httpx.AsyncClient, served: Served, asks: Sequence[tuple[int, Asked]]) -> list[Kept]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(index: int, asked: Asked) -> Kept:
        async with gate:
            said = await generate(http, served, asked)
        if isinstance(said, Fault):
            raise SystemExit(f"the engine: {said.says}")
        return Kept(index, list(said.prompt_ids), list(said.ids), said.text)

    return list(await asyncio.gather(*(one(i, a) for i, a in asks)))


async def scored(http: httpx.AsyncClient, served: Served, bench: Bench, kept: list[Kept]) -> list[Kept]:
    """One by one, behind the prompt that was asked, whatever the candidate had read."""
    own = {k.prompt: k.prompt_ids for k in bench.recording.kinds.get("reference", kept)}
    for answer in kept:
        prompt = own[answer.prompt]
        said = await score(http, served, [*prompt, *answer.ids], len(prompt))
        if isinstance(said, Fault):
            raise SystemExit(f"the engine: {said.says}")
        answer.logps, answer.top_ids, answer.top_logps = (
            said.logps.tolist(), said.top_ids.tolist(), said.top_logps.round(5).tolist())
    return kept


def asks_of(bench: Bench, how: Ask | None, count: int, pick: random.Random) -> list[tuple[int, Asked]]:
    asks = [(i, how(bench, i, pick) if how else a) for i, a in enumerate(bench.asks) for _ in range(count)]
    pick.shuffle(asks)
    return asks


def replaced(bench: Bench, ratio: float, pick: random.Random) -> list[Kept]:
    """Two answers of the reference to each prompt, with tokens drawn from the whole vocabulary."""
    taken: dict[int, int] = {}
    out = []
    for kept in bench.recording.kinds["reference"]:
        taken[kept.prompt] = taken.get(kept.prompt, 0) + 1
        if taken[kept.prompt] <= 2:
            ids = [pick.randrange(100, VOCABULARY - 100) if pick.random() < ratio else t for t in kept.ids]
            out.append(Kept(kept.prompt, kept.prompt_ids, ids, kept.text))
    return out


@asynccontextmanager
async def engine(log: Path, *more: str) -> AsyncIterator[tuple[httpx.AsyncClient, Served]]:
    running, _ = launch(MODEL, (*FLAGS, *more), log)
    try:
        async with client(running.url, 120) as http:
            served = await served_model(http)
            if isinstance(served, Fault):
                raise SystemExit(f"the engine: {served.says}")
            yield http, served
    finally:
        stop(running, 20)


async def record(bench: Bench, folder: Path) -> None:
    """Candidates with an engine of their own answer first; then the reference comes, and scores what there is."""
    pick, kinds = random.Random(3), bench.recording.kinds
    for kind, flags in ENGINES.items():
        if kind not in kinds:
            async with engine(folder / "candidate.log", *(made(f, folder) for f in flags)) as (http, served):
                bench.keep(kind, await answered(http, served, asks_of(bench, None, 2, pick)))
    wanted = ("reference", *ENGINES, *SERVED, *REPLACED)
    if all(kind in kinds and kinds[kind][0].logps for kind in wanted):
        return
    async with engine(folder / "reference.log") as (http, served):
        for kind in wanted:
            if kind not in kinds and kind in REPLACED:
                bench.keep(kind, replaced(bench, REPLACED[kind], pick))
            elif kind not in kinds:
                asks = asks_of(bench, SERVED.get(kind), 2 if kind in SERVED else 4, pick)
                bench.keep(kind, await answered(http, served, asks))
            if not kinds[kind][0].logps:
                bench.keep(kind, await scored(http, served, bench, kinds[kind]))


def made(flag: str, folder: Path) -> str:
    """A flag; of a model with noise the folder, made where it is not there."""
    if not flag.startswith("{noisy:"):
        return flag
    target = folder / "noisy"
    subprocess.run([str(real_engine.PYTHON), str(real_engine.ROOT / "tools/models/noisy.py"),
                    str(real_engine.MODELS / MODEL), str(target), flag[7:-1]], check=True)  # fmt: skip
    return str(target)


def answers_of(bench: Bench, kind: str, arm: str) -> list[Answered]:
    found = []
    for k in bench.recording.kinds[kind]:
        scores = Scores(np.array(k.ids), np.array(k.logps), np.array(k.top_ids), np.array(k.top_logps))
        wants, task = bench.asks[k.prompt].response_format is not None, bench.tasks[k.prompt]
        found.append(Answered(k.prompt, task, arm, scores, k.text, None, wants))
    return found


def found_ratio(bench: Bench, kind: str | None, prompts_count: int, tries: int) -> float:
    """Share of tries that are called different. None: half of the reference's answers against the other half."""
    draw = np.random.default_rng(7)
    candidate = answers_of(bench, kind, CANDIDATE) if kind else []
    whole = measured([*answers_of(bench, "reference", REFERENCE), *candidate])
    prompts = np.unique(whole.prompts)
    found = 0
    for _ in range(tries):
        some = draw.choice(prompts, size=min(prompts_count, len(prompts)), replace=False)
        labelled = whole if kind else replace(whole, candidate=halved(whole.prompts, draw))
        part = grouped(labelled.only(np.isin(whole.prompts, some)), GROUPS)
        found += bool((compare(part, 499, LEVEL.value, draw).adjusted <= LEVEL.value).any())
    return found / tries


def told_ratio(bench: Bench, prompts_count: int) -> str:
    """What a verdict on so many prompts says it would find, of wrong tokens."""
    draw = np.random.default_rng(7)
    own = answers_of(bench, "reference", REFERENCE)
    some = set(draw.choice(np.unique([a.prompt for a in own]), size=prompts_count, replace=False).tolist())
    answers = [a for a in own if a.prompt in some]
    whole = measured(answers)
    halves = grouped(replace(whole, candidate=halved(whole.prompts, draw)), GROUPS)
    critical = compare(halves, 1999, LEVEL.value, draw).critical
    (found,) = smallest_found(Corruption(answers, whole), GROUPS, critical, 200, draw)
    return "none" if found is None else f"{found:.1%}"


def table(bench: Bench, tries: int) -> float:
    """Prints it; the largest share called different without any corruption."""
    print(f"{'called different, of tries with':36}" + "".join(f"{n:5} prompts" for n in SIZES))
    own = [found_ratio(bench, None, n, 10 * tries) for n in SIZES]
    print(f"{'nothing (A/A)':36}" + "".join(f"{r:13.1%}" for r in own), flush=True)
    for kind in (k for k in bench.recording.kinds if k != "reference"):
        found = [found_ratio(bench, kind, n, tries) for n in SIZES]
        print(f"{kind:36}" + "".join(f"{r:13.0%}" for r in found), flush=True)
    print(f"{'smallest share of wrong tokens told':36}" + "".join(f"{told_ratio(bench, n):>13}" for n in SIZES))
    return max(own)


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--recording", type=Path)
    ask.add_argument("--prompts", type=int, default=24)
    ask.add_argument("--tries", type=int, default=100)
    asked = ask.parse_args()
    began = time.monotonic()
    prompts = neutral(asked.prompts, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        file = asked.recording or Path(folder) / "recording.json.gz"
        known = Recording()
        if file.exists():
            known = msgspec.json.decode(gzip.decompress(file.read_bytes()), type=Recording)
        asks = tuple(Asked(str(p.content), TOKENS, response_format=p.response_format) for p in prompts)
        bench = Bench(asks, tuple(p.task or "" for p in prompts), file, known)
        asyncio.run(record(bench, Path(folder)))
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, {MODEL}, {real_engine.dtype()}, {asked.prompts} "
          f"prompts of {len(set(bench.tasks))} tasks, answers of up to {TOKENS} tokens, {AT_ONCE} at once, sampled as "
          f"the engine does by itself where not said, level {LEVEL.value:g}, {asked.tries} tries (A/A: "
          f"{10 * asked.tries}), {time.monotonic() - began:.0f} s of recording, load {os.getloadavg()[0]:.1f}")
    return 0 if table(bench, asked.tries) <= LEVEL.value + 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
