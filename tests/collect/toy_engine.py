"""A toy engine that makes random scheduling decisions and writes what the probe would write.

It keeps its own books (who computed what in which step), so that the recorder's rows can be held against them. It tests
our joining and splitting only; real engines are in tests/engine.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field

from pellucid_probe import records
from pellucid_probe.ring import RingWriter

STEP_NS = 5_000_000


@dataclass(eq=False)
class Toy:
    """One request as the toy engine knows it."""

    number: int
    prompt: int
    wanted: int
    computed: int = 0
    high: int = 0
    outputs: int = 0
    admitted: bool = False
    preemptions: int = 0
    gone: bool = False


@dataclass
class Books:
    shares: list[tuple[int, int, int, str, int]] = field(default_factory=list)  # step, request, tokens, phase, output
    recomputed: int = 0
    discarded: int = 0
    outputs: dict[int, int] = field(default_factory=dict)
    scheduled: dict[int, int] = field(default_factory=dict)
    finished: dict[int, str] = field(default_factory=dict)


class ToyEngine:
    def __init__(self, ring: RingWriter, pick: random.Random, budget: int = 300, cap: int = 6) -> None:
        self.ring, self.pick, self.budget, self.cap = ring, pick, budget, cap
        self.books = Books()
        self.seen = (1 << 5) - 1        # every records.SEEN_*
        self.now = 1_000_000_000
        self.step = 0
        self.waiting: list[Toy] = []
        self.running: list[Toy] = []
        self.resumed_as_new = pick.choice([False, True])      # as some runners of models have it
        self._made = 0
        self._members: list[int] = []
        self._since_full = records.FULL_EVERY

    def arrive(self, prompt: int | None = None) -> None:
        self._made += 1
        toy = Toy(self._made, prompt or self.pick.randint(1, 700), self.pick.randint(1, 40))
        self.waiting.append(toy)
        self._json(records.ADD, {"r": toy.number, "t": self.now, "i": f"r-{toy.number}", "e": f"x-{toy.number}", "c": 0,
                                 "n": toy.prompt, "m": toy.wanted, "k": None, "h": "ab" * 8})  # fmt: skip

    def run_step(self) -> None:
        start, preempted = self.now, self._preempt()
        counts = self._schedule(preempted)
        if not counts:
            return
        self.now += STEP_NS
        if self.pick.random() < 0.1:
            self._abort(self.pick.choice([*counts, *counts]))
        outputs = self._update(counts)
        mode, frame = self._frame([t.number for t in counts], list(counts.values()))
        left = bool(self.running or self.waiting)
        self.ring.write(records.STEP, records.pack_step_head(
            self.step, start, start + 10, self.now - 10, self.now, 0, 0, 0, 5, 0, len(counts), sum(counts.values()),
            len(self.running), len(self.waiting), 0, self.budget, self.cap, 100, 50, 10, len(preempted), 0, 0, left,
            self.seen, outputs, 0, 0, mode,
        ) + frame)  # fmt: skip
        self.now += 1000

    def _schedule(self, preempted: list[Toy]) -> dict[Toy, int]:
        self.step += 1
        room, counts = self.budget, {}
        for toy in list(self.running):
            tokens = min(room, toy.prompt + toy.outputs - toy.computed)
            if tokens > 0:
                counts[toy] = tokens
                room -= tokens
        while self.waiting and room and len(self.running) < self.cap and not preempted:
            toy = self.waiting.pop(0)
            known = toy.prompt + toy.outputs
            hit = min(known - 1, self.pick.choice([0, 0, 16, 64]))
            again = toy.admitted
            hit = min(hit, toy.high) if again else hit
            toy.computed, toy.admitted = hit, True
            record = records.Admit(toy.number, int(again and not self.resumed_as_new), self.step, hit)
            self.ring.write(records.ADMIT, records.pack_admit(record))
            self.running.append(toy)
            counts[toy] = min(room, known - hit)
            room -= counts[toy]
        if not counts:
            self.step -= 1
        return counts

    def _preempt(self) -> list[Toy]:
        if len(self.running) < 2 or self.pick.random() > 0.08:
            return []
        toy = self.running.pop()
        toy.high = max(toy.high, toy.computed)
        record = records.Preempt(toy.number, self.step + 1, self.now, toy.computed)
        self.ring.write(records.PREEMPT, records.pack_preempt(record))
        toy.computed, toy.preemptions = 0, toy.preemptions + 1
        self.waiting.insert(0, toy)
        return [toy]

    def _abort(self, toy: Toy) -> None:
        toy.gone = True
        self.running.remove(toy)
        self._free(toy, "abort", 0)

    def _update(self, counts: dict[Toy, int]) -> int:
        made = 0
        for toy, tokens in counts.items():
            self.books.scheduled[toy.number] = self.books.scheduled.get(toy.number, 0) + tokens
            if toy.gone:
                self.books.discarded += tokens
                self.books.shares.append((self.step, toy.number, tokens, "discarded", 0))
                continue
            known = toy.prompt + toy.outputs
            again = min(tokens, max(0, toy.high - toy.computed))
            phase = "recompute" if again else "prefill" if toy.computed < toy.prompt else "decode"
            output = int(toy.computed + tokens >= known)
            toy.computed += tokens
            toy.high = max(toy.high, toy.computed)
            toy.outputs += output
            made += output
            self.books.recomputed += again
            self.books.outputs[toy.number] = toy.outputs
            self.books.shares.append((self.step, toy.number, tokens, phase, output))
            if toy.outputs == toy.wanted:
                self.running.remove(toy)
                self._free(toy, "length", self.step)
        return made

    def _free(self, toy: Toy, reason: str, step: int) -> None:
        self.books.finished[toy.number] = reason
        freed = (toy.number, self.now, step, toy.outputs, toy.computed, toy.preemptions, reason)
        self.ring.write(records.FINISH, records.pack_finish(freed))

    def _frame(self, members: list[int], counts: list[int]) -> tuple[int, bytes]:
        self._since_full += 1
        before, self._members = self._members, members
        left = [n for n in before if n not in members]
        joined = [n for n in members if n not in before]
        if [n for n in before if n not in left] + joined != members or self._since_full >= records.FULL_EVERY:
            self._since_full = 0
            return records.full_frame(members, counts)
        mode, head = (records.MOVED, records.moved_head(left, joined)) if left or joined else (records.SAME, b"")
        if all(c == 1 for c in counts):
            return mode + records.ONES, head
        if max(counts) < 256:
            return mode + records.BYTES, head + bytes(counts)
        return mode + records.WORDS, head + array("I", counts).tobytes()

    def _json(self, kind: int, fields: dict[str, object]) -> None:
        self.ring.write(kind, records.pack_json(fields))

