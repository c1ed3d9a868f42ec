"""One engine core's records → rows of `steps`, `step_runs`, `request_events`; requests completed on the way.

Records come in the order the engine core wrote them:

    ADD … ADMIT, PREEMPT (while step s is scheduled) … FINISH (in the update of s, or between) … STEP s

A step's row waits HOLD_NS before it is emitted, so that the workers' and frontends' records of it can arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pellucid_probe import records

from pellucid.collect.batch import Batch, Terms
from pellucid.collect.kv.lives import KINDS, KvLives
from pellucid.collect.request import Request, note_freed, note_queued
from pellucid.collect.speculation import Draft, Speculation
from pellucid.core.units import S_NS
from pellucid.store.schema import STEPS
from pellucid.store.write import Row

HOLD_NS = 1 * S_NS
WAITING = {
    records.BUDGET: "waiting_token_budget_count",
    records.SEQUENCE_CAP: "waiting_sequence_cap_count",
    records.KV: "waiting_kv_count",
}

Append = Callable[[str, Row], None]


@dataclass(slots=True)
class EngineCore:
    process: str
    append: Append
    provenance: Callable[[], dict[str, Any]]
    find: Callable[[str], Request]               # internal id → request, made when new
    done: Callable[[Request], None]              # a request is complete on this side
    key: bytes | None = None                     # secret of the site; without it KV hashes are not written
    batch: Batch = field(init=False)
    lives: KvLives = field(init=False)
    speculation: Speculation = field(init=False)
    held: deque[dict[str, Any]] = field(default_factory=deque)
    by_step: dict[int, dict[str, Any]] = field(default_factory=dict)
    firsts: dict[int, list[Request]] = field(default_factory=dict)    # step → requests with their first token in it
    lasts: dict[int, list[Request]] = field(default_factory=dict)     # step → requests that ended in it
    _numbers: dict[int, Request] = field(default_factory=dict)
    _admits: dict[int, list[records.Admit]] = field(default_factory=dict)
    _preempts: dict[int, list[records.Preempt]] = field(default_factory=dict)
    _freed: list[Request] = field(default_factory=list)
    _drafts: dict[int, list[Draft]] = field(default_factory=dict)         # step → its requests with drafts
    _early: dict[int, list[records.Work]] = field(default_factory=dict)   # a worker ends a step before its STEP comes
    _before: records.Step | None = None

    def __post_init__(self) -> None:
        self.batch = Batch(self.process, lambda row: self.append("step_runs", row))
        self.lives = KvLives(self.provenance, self.append, self.key)
        self.speculation = Speculation(self.append, self.provenance)

    def take(self, kind: int, payload: bytes) -> None:
        if kind == records.STEP:
            self._step(records.unpack_step(payload))
        elif kind == records.ADMIT:
            admit = records.unpack_admit(payload)
            self._admits.setdefault(admit.step, []).append(admit)
        elif kind == records.PREEMPT:
            preempt = records.unpack_preempt(payload)
            self._preempts.setdefault(preempt.step, []).append(preempt)
        elif kind == records.SPEC:
            self.batch.drafts = {n: (drafted, produced) for n, drafted, produced in records.unpack_spec(payload)}
        elif kind == records.ADD:
            self._add(records.unpack_json(payload))
        elif kind in KINDS:
            self.lives.take(kind, payload)
        elif kind == records.FINISH:
            self._finish(records.unpack_finish(payload))
        else:
            raise ValueError(f"a record of unknown kind {kind}")

    def worked(self, work: records.Work) -> None:
        """A worker's times of a step: the slowest worker counts."""
        row = self.by_step.get(work.step)
        if row is not None:
            _put_work(row, work)
        elif self._before is None or work.step > self._before.step:
            self._early.setdefault(work.step, []).append(work)

    def emit_older_than(self, time_ns: int) -> None:
        while self.held and self.held[0]["end_ns"] <= time_ns:
            row = self.held.popleft()
            step = row["step"]
            del self.by_step[step]
            self.firsts.pop(step, None)
            self.lasts.pop(step, None)
            self.append("steps", tuple(row.get(name) for name in STEPS.names()))
            self.speculation.take(row, self._drafts.pop(step, []))
        self.speculation.emit_older_than(time_ns)

    def end(self) -> list[Request]:
        """The recording ends: everything held goes out. Returns requests that were still alive."""
        self.batch.close_all()
        self.lives.end()
        self.emit_older_than(2**63 - 1)
        return [r for r in self._numbers.values() if r.finished_in is None]

    def step_at(self, stamp_ns: int) -> dict[str, Any] | None:
        """The held step in whose update a moment lies, newest first."""
        held: Iterator[dict[str, Any]] = reversed(self.held)
        for row in held:
            end_ns: int = row["end_ns"]
            if end_ns < stamp_ns:
                return None
            if end_ns - row["update_ns"] <= stamp_ns:
                return row
        return None

    def _add(self, seen: dict[str, Any]) -> None:
        request = self.find(seen["i"])
        note_queued(request, self.process, seen)
        self._numbers[request.number] = request
        self._event(request, "queued", seen["t"], None, None)

    def _by_number(self, number: int) -> Request:
        request = self._numbers.get(number)
        if request is None:    # its ADD was lost
            request = self._numbers[number] = Request(internal_id=f"?{self.process}-{number}", number=number)
            request.core = self.process
        return request

    def _finish(self, seen: records.Finish) -> None:
        request = self._by_number(seen.request)
        note_freed(request, seen)
        self.lives.finished(seen.request)
        self._event(request, "finished", seen.time_ns, seen.step or None, seen.computed_tokens)
        if seen.step:
            self._freed.append(request)
        else:
            self.batch.close(request)
            self.batch.unsettle()
            self.done(request)

    def forget(self, request: Request) -> None:
        """Called a while after `done`: a batch in flight may still have the number among its members."""
        self._numbers.pop(request.number, None)
        self.lives.forget(request.number)

    def _step(self, step: records.Step) -> None:
        for preempt in self._preempts.pop(step.step, ()):
            self._preempted(preempt)
        admits = [self._named(admit) for admit in self._admits.pop(step.step, ())]
        for admit in admits:
            self._admitted(admit, step)
        self.lives.step(step.step, step.schedule_start_ns, admits)
        if self.batch.drafts and step.step == self.batch.last_step + 1:    # else they may be a lost step's
            self._drafts[step.step] = [(self._by_number(n), *seen) for n, seen in self.batch.drafts.items()]
        terms = self.batch.take(step, self._by_number)
        row = self._row(step, terms)
        self.held.append(row)
        self.by_step[step.step] = row
        for work in self._early.pop(step.step, ()):
            _put_work(row, work)
        for request in self.batch.firsts:
            request.first("first_token_ns", step.update_end_ns)
            self.firsts.setdefault(step.step, []).append(request)
        for request in self._freed:
            self.batch.close(request)
            request.fields["last_token_ns"] = step.update_end_ns
            self.lasts.setdefault(step.step, []).append(request)
            self.done(request)
        if self._freed:
            self.batch.unsettle()    # with batches in flight the next step may still hold them
        self._freed.clear()
        self._before = step

    def _preempted(self, preempt: records.Preempt) -> None:
        request = self._by_number(preempt.request)
        self.batch.close(request)
        request.high_water = max(request.high_water, preempt.lost)
        request.position = None
        self.batch.unsettle()
        self._event(request, "preempted", preempt.time_ns, preempt.step, preempt.lost)

    def _named(self, admit: records.Admit) -> records.Admit:
        """Some runners of models get a request that comes back after a preemption as a new one."""
        before = self._by_number(admit.request).fields.get("scheduled_count")
        return admit._replace(again=1) if before else admit

    def _admitted(self, admit: records.Admit, step: records.Step) -> None:
        request = self._by_number(admit.request)
        request.position = admit.computed
        request.add("scheduled_count", 1)
        if not admit.again:
            request.fields["scheduled_ns"] = step.schedule_start_ns
            request.fields["cached_tokens"] = admit.computed
        kind = "rescheduled" if admit.again else "scheduled"
        self._event(request, kind, step.schedule_start_ns, step.step, admit.computed)

    def _event(self, request: Request, kind: str, time_ns: int, step: int | None, tokens: int | None) -> None:
        self.append("request_events", (self.process, kind, request.number, time_ns, step, tokens))

    def _row(self, step: records.Step, terms: Terms | None) -> dict[str, Any]:
        row: dict[str, Any] = {
            **self.provenance(), "step": step.step, "start_ns": step.schedule_start_ns, "end_ns": step.update_end_ns,
            "schedule_ns": step.schedule_end_ns - step.schedule_start_ns,
            "execute_ns": step.update_start_ns - step.schedule_end_ns,
            "update_ns": step.update_end_ns - step.update_start_ns,
            "scheduled_tokens": step.tokens, "output_tokens": step.outputs, "accepted_tokens": step.accepted,
            "preempted_count": step.preempted, "preempted_tokens": step.preempted_tokens, "probe_ns": step.probe_ns,
        }  # fmt: skip
        if step.seen & records.SEEN_GRAMMAR:
            row["grammar_ns"] = step.grammar_ns
        if step.seen & records.SEEN_LIMITS:
            row |= {"sequence_cap_count": step.sequence_cap, "token_budget_tokens": step.token_budget}
        if step.seen & records.SEEN_WAITING:
            row |= {"running_count": step.running, "waiting_count": step.waiting,
                    "waiting_deferred_count": step.deferred, **dict.fromkeys(WAITING.values(), 0)}  # fmt: skip
            if step.waiting_reason in WAITING:
                row[WAITING[step.waiting_reason]] = step.waiting - step.deferred
        if terms is not None:
            row |= {
                "prefill_tokens": terms.prefill, "decode_tokens": terms.decode,
                "recomputed_tokens": terms.recomputed, "draft_tokens": terms.draft,
                "discarded_tokens": terms.discarded, "prefill_requests_count": terms.prefill_requests,
                "decode_requests_count": terms.decode_requests,
            }  # fmt: skip
        row |= self._gap(step) | self._kv(step)
        return row

    def _gap(self, step: records.Step) -> dict[str, Any]:
        before = self._before
        if before is None or before.step != step.step - 1:
            return {}
        gap = max(0, step.schedule_start_ns - before.update_end_ns)   # below zero when batches overlap
        return {"host_gap_ns" if before.had_work_after else "idle_ns": gap}

    def _kv(self, step: records.Step) -> dict[str, Any]:
        row: dict[str, Any] = {}
        if step.seen & records.SEEN_KV_BLOCKS:
            row = {"kv_total_blocks_count": step.kv_total, "kv_free_blocks_count": step.kv_free,
                   "kv_used_blocks_count": step.kv_total - step.kv_free,
                   "kv_cached_blocks_count": step.kv_cached}  # fmt: skip
        before = self._before
        if not step.seen & records.SEEN_KV_FLOW:
            return row
        if step.step == 1:
            flow = (step.kv_allocated, step.kv_revived, step.kv_freed)
        elif before is not None and before.step == step.step - 1:
            flow = (step.kv_allocated - before.kv_allocated, step.kv_revived - before.kv_revived,
                    step.kv_freed - before.kv_freed)  # fmt: skip
        else:
            return row
        names = ("kv_allocated_blocks_count", "kv_revived_blocks_count", "kv_freed_blocks_count")
        return row | dict(zip(names, flow, strict=True))


def _put_work(row: dict[str, Any], work: records.Work) -> None:
    worked = max(work.execute_end_ns, work.sample_end_ns) - work.execute_start_ns
    row["worker_ns"] = max(row.get("worker_ns") or 0, worked)
    row["time_basis"] = "worker_wall"
    for part in ("draft_ns", "encoder_ns", "lora_ns"):
        spent_ns = getattr(work, part)
        if spent_ns != records.UNSEEN_NS:
            row[part] = max(row.get(part) or 0, spent_ns)
    if work.graph_mode != records.UNSEEN:
        row["graph_mode"] = records.GRAPH_MODES[work.graph_mode]
    if work.padded_tokens != records.UNSEEN:
        row["padded_tokens"] = work.padded_tokens
