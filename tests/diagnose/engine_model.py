"""A made-up engine that records itself: first come first served, chunked prefill, preemption by recompute.

    rows = serve(Shape(cap=4), [Ask(arrival_ms=0, prompt=100, output=20)])
    folder = write_run(tmp_path, rows)

A step takes `fixed_ms + per_token_ms * tokens`, all else follows from the queue. It stands in for no real engine's
speed: it gives the rules rows whose cause is known. No two prompts are alike, so nothing is found cached. Times in ms
here, ns in the rows.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.core.run import RunInfo, write_info
from pellucid.store.schema import TABLES
from pellucid.store.write import Limits, RunWriter

MS = 1_000_000
BASE = 10_000 * MS
BLOCK = 16
BLOCK_BYTES = 2**17
PROCESS = "engine_core-1"
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Shape:
    cap: int = 64
    budget: int = 2048
    blocks: int = 10_000
    threshold: int = 0
    fixed_ms: float = 20.0
    per_token_ms: float = 0.2
    schedule_ms: float = 0.2
    update_ms: float = 0.1
    gap_ms: float = 0.1
    handover_ms: float = 0.2
    version: str = "0.32.0"
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    arrival_ms: float
    prompt: int
    output: int
    abort_ms: float | None = None


@dataclass
class Live:
    number: int
    ask: Ask
    computed: int = 0
    sampled: int = 0
    high: int = 0              # positions ever computed
    preempted: int = 0
    row: dict[str, Any] = field(default_factory=dict)

    def known(self) -> int:
        return self.ask.prompt + self.sampled

    def held(self) -> int:
        return -(-self.computed // BLOCK)


class Core:
    def __init__(self, shape: Shape, asks: list[Ask]) -> None:
        self.shape, self.now_ms, self.step = shape, 0.0, 0
        self.coming = deque(sorted((Live(n, a) for n, a in enumerate(asks)), key=lambda r: r.ask.arrival_ms))
        self.waiting: deque[Live] = deque()
        self.running: list[Live] = []
        self.rows: Rows = {"steps": [], "requests": [], "step_runs": [], "request_events": [], "prefix_lookups": [],
                           "kv_residency": []}  # fmt: skip
        self.idle = True

    def run(self, until_ms: float) -> Rows:
        while self.now_ms < until_ms and (self.coming or self.waiting or self.running):
            if not self.waiting and not self.running:
                self.now_ms, self.idle = max(self.now_ms, self.coming[0].ask.arrival_ms), True
            self._arrive()
            self._step()
        for r in [*self.running, *self.waiting]:
            self._finish(r, None)
        return self.rows

    def _arrive(self) -> None:
        while self.coming and self.coming[0].ask.arrival_ms <= self.now_ms:
            r = self.coming.popleft()
            r.row = {"arrival_ns": _ns(r.ask.arrival_ms), "queued_ns": _ns(r.ask.arrival_ms) + MS}
            self.waiting.append(r)

    def _free(self) -> int:
        return self.shape.blocks - sum(r.held() for r in self.running)

    def _step(self) -> None:
        gap_ms = 0.0 if self.idle else self.shape.gap_ms
        start_ms = self.now_ms + gap_ms
        plan: list[tuple[Live, int]] = []
        budget, lost = self.shape.budget, 0
        victims: list[Live] = []
        for r in list(self.running):
            if r not in self.running:
                continue
            n = self._chunk(r, budget)
            while n and not self._fits(r, n, plan):
                victim = self.running.pop()
                lost += victim.computed
                self._event(victim, "preempted", victim.computed, start_ms)
                plan = [(p, k) for p, k in plan if p is not victim]
                victim.computed, victim.preempted = 0, victim.preempted + 1
                victims.append(victim)
                if victim is r:
                    n = 0
            if n:
                plan.append((r, n))
                budget -= n
        self.waiting.extendleft(victims)
        self._admit(plan, budget, bool(victims), start_ms)
        self._record(plan, start_ms, gap_ms, victims, lost)

    def _admit(self, plan: list[tuple[Live, int]], budget: int, blocked: bool, start_ms: float) -> None:
        self.reason = "kv" if blocked else ""
        while self.waiting and not self.reason:
            r = self.waiting[0]
            n = self._chunk(r, budget)
            if len(self.running) >= self.shape.cap:
                self.reason = "sequence_cap"
            elif n == 0:
                self.reason = "token_budget"
            elif not self._fits(r, r.known(), plan):
                self.reason = "kv"
            else:
                self.waiting.popleft()
                self.running.append(r)
                r.row.setdefault("scheduled_ns", _ns(start_ms))
                r.row.setdefault("first_step", self.step)
                self._event(r, "rescheduled" if r.preempted else "scheduled", 0, start_ms)
                if not r.preempted:
                    self._look_up(r, start_ms)
                plan.append((r, n))
                budget -= n

    def _chunk(self, r: Live, budget: int) -> int:
        n = r.known() - r.computed
        if self.shape.threshold and n > self.shape.threshold:
            n = self.shape.threshold
        return min(n, budget)

    def _fits(self, r: Live, n: int, plan: list[tuple[Live, int]]) -> bool:
        grown = sum(-(-(p.computed + k) // BLOCK) - p.held() for p, k in plan)
        return -(-(r.computed + n) // BLOCK) - r.held() <= self._free() - grown

    def _record(
        self, plan: list[tuple[Live, int]], start_ms: float, gap_ms: float, victims: list[Live], lost: int
    ) -> None:
        s, tokens = self.shape, sum(n for _, n in plan)
        worker_ms = s.fixed_ms + s.per_token_ms * tokens
        end_ms = start_ms + s.schedule_ms + worker_ms + s.handover_ms + s.update_ms
        again = sum(min(n, max(0, r.high - r.computed)) for r, n in plan)
        decodes = [r for r, n in plan if r.sampled and n == 1 and r.computed + 1 == r.known()]
        sampled = sum(r.computed + n == r.known() for r, n in plan)
        for r, n in plan:
            self._advance(r, n, end_ms, "decode" if r in decodes else "recompute" if r.computed < r.high else "prefill")
        used = sum(r.held() for r in self.running)
        waiting = {f"waiting_{k}_count": len(self.waiting) if k == self.reason else 0
                   for k in ("sequence_cap", "token_budget", "kv", "deferred")}  # fmt: skip
        self.rows["steps"].append({
            "step": self.step, "start_ns": _ns(start_ms), "end_ns": _ns(end_ms), "schedule_ns": int(s.schedule_ms * MS),
            "execute_ns": int((worker_ms + s.handover_ms) * MS), "update_ns": int(s.update_ms * MS),
            "host_gap_ns": None if self.idle else int(gap_ms * MS), "worker_ns": int(worker_ms * MS),
            "running_count": len(self.running), "waiting_count": len(self.waiting), **waiting,
            "sequence_cap_count": s.cap, "token_budget_tokens": s.budget, "scheduled_tokens": tokens,
            "prefill_tokens": tokens - again - len(decodes), "decode_tokens": len(decodes),
            "recomputed_tokens": again, "output_tokens": sampled, "discarded_tokens": 0, "draft_tokens": 0,
            "prefill_requests_count": len(plan) - len(decodes), "decode_requests_count": len(decodes),
            "kv_total_blocks_count": s.blocks, "kv_used_blocks_count": used, "kv_free_blocks_count": s.blocks - used,
            "preempted_count": len(victims), "preempted_tokens": lost,
        })  # fmt: skip
        for r in [r for r in self.running if r.sampled >= r.ask.output or self._aborted(r, end_ms)]:
            self.running.remove(r)
            self._finish(r, "length" if r.sampled >= r.ask.output else "abort")
        self.now_ms, self.idle, self.step = end_ms, False, self.step + 1

    def _aborted(self, r: Live, end_ms: float) -> bool:
        return r.ask.abort_ms is not None and end_ms >= r.ask.abort_ms

    def _advance(self, r: Live, n: int, end_ms: float, phase: str) -> None:
        done = r.computed + n == r.known()
        self.rows["step_runs"].append({
            "request": r.number, "first_step": self.step, "last_step": self.step, "step_tokens": n,
            "first_position": r.computed, "output_tokens": int(done), "phase": phase,
        })  # fmt: skip
        r.computed += n
        r.row["scheduled_tokens"] = r.row.get("scheduled_tokens", 0) + n
        r.row["recomputed_tokens"] = r.row.get("recomputed_tokens", 0) + min(n, max(0, r.high - (r.computed - n)))
        r.high = max(r.high, r.computed)
        if done:
            r.sampled += 1
            r.row.setdefault("first_token_ns", _ns(end_ms))
            r.row["last_token_ns"] = _ns(end_ms)
        r.row["last_step"] = self.step

    def _event(self, r: Live, event: str, tokens: int, now_ms: float) -> None:
        self.rows["request_events"].append(
            {"event": event, "request": r.number, "time_ns": _ns(now_ms), "step": self.step, "tokens": tokens}
        )

    def _look_up(self, r: Live, now_ms: float) -> None:
        whole = r.ask.prompt // BLOCK * BLOCK
        none = dict.fromkeys(("cached", "evicted", "salt", "lora", "multimodal", "tokenisation", "skipped"), 0)
        self.rows["prefix_lookups"].append({
            "request": r.number, "time_ns": _ns(now_ms), "prompt_tokens": r.ask.prompt,
            "family": f"f{r.number}" if whole else None, "miss_reason": "never_seen" if whole else None,
            **{f"{kind}_tokens": count for kind, count in none.items()},
            "never_seen_tokens": whole, "tail_tokens": r.ask.prompt - whole,
        })  # fmt: skip
        for n in range(whole // BLOCK):
            self.rows["kv_residency"].append({
                "block_hash": f"{r.number}.{n}", "tier": "device", "request": r.number, "cached_ns": _ns(now_ms),
                "hits_count": 0, "tokens": BLOCK,
            })  # fmt: skip

    def _finish(self, r: Live, reason: str | None) -> None:
        last_ns, first_ns = r.row.get("last_token_ns"), r.row.get("first_token_ns")
        self.rows["requests"].append({
            **r.row, "request": r.number, "request_id": f"r{r.number}", "internal_id": f"r{r.number}-0",
            "finish_reason": reason, "finish_ns": last_ns if reason else None,
            "aborted_by": "client" if reason == "abort" else None,
            "first_delivered_ns": None if first_ns is None else first_ns + MS,
            "last_delivered_ns": last_ns + MS if reason and last_ns else None,
            "prompt_tokens": r.ask.prompt, "cached_tokens": 0, "output_tokens": r.sampled,
            "preemptions_count": r.preempted, "max_tokens": r.ask.output,
        })  # fmt: skip


def serve(shape: Shape, asks: list[Ask], until_ms: float = 1e9) -> Rows:
    rows = Core(shape, asks).run(until_ms)
    config = {"max_num_seqs": shape.cap, "max_num_batched_tokens": shape.budget, "device": "cpu",
              "long_prefill_token_threshold": shape.threshold, **shape.config}  # fmt: skip
    rows["sources"] = [{
        "role": "engine_core", "engine_version": shape.version, "model": "made-up", "config_json": json.dumps(config),
        "start_ns": BASE, "lost_count": 0, "torn_count": 0, "kv_cache_bytes": shape.blocks * BLOCK_BYTES,
    }]  # fmt: skip
    return rows


NO_EXPERTS: Rows = {"facts": [{"fact": "worker.experts", "state": "visible"}]}    # looked for, and the model has none


def write_run(folder: Path, rows: Rows) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    writer = RunWriter(folder, Limits(), lambda: BASE)
    for table, records in (NO_EXPERTS | rows).items():
        names = TABLES[table].names()
        fixed = {"deployment": "default", "engine": "vllm", "process": PROCESS, "dp_rank": 0}
        for record in records:
            full = {**fixed, **record}
            strange = set(record) - set(names)
            if strange:
                raise ValueError(f"{table} has no {sorted(strange)}")
            writer.append(table, tuple(full.get(n) for n in names))
    writer.close()
    write_info(folder, RunInfo(folder.name, 0, [], ""))
    return folder


def _ns(ms: float) -> int:
    return BASE + int(ms * MS)
