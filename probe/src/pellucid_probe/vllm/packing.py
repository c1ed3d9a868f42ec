"""Engine core: what the hooks noted → records. Runs where the outbox is flushed, in the order things were noted.

Only here are requests numbered and batches turned into frames, so the hooks need not look at members at all. A frame
is a delta: while all running requests get one token each and nobody comes or goes, a step is one flag.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any, Deque, Dict, List, NamedTuple, Tuple

from pellucid_probe import records
from pellucid_probe.process import keyed_hash
from pellucid_probe.ring import Record

KEPT_STEPS = 4    # more than the engine has in flight


class Planned(NamedTuple):
    """What a schedule() left behind, read right after it."""

    start_ns: int
    end_ns: int
    running: int
    waiting: int
    deferred: int
    token_budget: int
    sequence_cap: int
    kv: Tuple[int, int, int, int, int, int, int]   # allocated, revived, freed, total, free, cached, seen
    preempted: int
    preempted_tokens: int


class Done(NamedTuple):
    """A step whose outputs were processed."""

    step: int
    planned: Tuple[Any, ...]  # the fields of Planned
    plan: Any                 # the engine's SchedulerOutput; it is not changed after its step
    start_ns: int
    end_ns: int
    outputs: int
    drafts: int
    accepted: int
    work_left: bool
    cost_ns: int


class Packer:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self._numbers: Dict[str, int] = {}        # internal id → short number
        self._next_number = 1
        self._leaving: Deque[Tuple[int, str, int]] = deque()   # last step seen when it was freed, id, number
        self._last_step = 0
        self._members: List[str] = []
        self._since_full = records.FULL_EVERY
        self._whole = False                       # last step: one token for each running request

    def added(self, fields: "dict[str, Any]") -> List[Record]:
        first = fields["h"]
        self._numbers.pop(fields["i"], None)      # an id that comes again is another request
        known = {**fields, "r": self._number(fields["i"]),
                 "h": None if first is None else keyed_hash(self._key, bytes(first))}  # fmt: skip
        return [(records.ADD, records.pack_json(known))]

    def freed(self, fields: "dict[str, Any]") -> List[Record]:
        """The number stays: the step that ended the request, and one in flight, have it among their members."""
        number = self._number(fields["i"])
        self._leaving.append((self._last_step, fields["i"], number))
        known = {**{k: v for k, v in fields.items() if k != "i"}, "r": number}
        return [(records.FINISH, records.pack_json(known))]

    def preempted(self, seen: Tuple[str, int, int, int]) -> List[Record]:
        """Internal id, step being scheduled, time, positions lost."""
        return [(records.PREEMPT, records.pack_preempt((self._number(seen[0]), *seen[1:])))]

    def speculated(self, seen: List[Tuple[str, int, int]]) -> List[Record]:
        """Internal id, drafted, produced."""
        flat = [n for request_id, drafted, produced in seen for n in (self._number(request_id), drafted, produced)]
        return [(records.SPEC, records.pack_spec(flat))]

    def step(self, values: Tuple[Any, ...]) -> List[Record]:
        """The fields of a Done, its `planned` as a plain tuple too → the admissions of the step, then the step."""
        done = Done(*values)
        plan, p = done.plan, Planned(*done.planned)
        counts: Dict[str, int] = plan.num_scheduled_tokens
        tokens: int = plan.total_num_scheduled_tokens
        found: List[Record] = []
        whole = tokens == len(counts) == p.running
        changed = plan.scheduled_new_reqs or plan.finished_req_ids or plan.scheduled_cached_reqs.resumed_req_ids
        if whole and self._whole and not changed and not p.preempted and self._since_full < records.FULL_EVERY:
            # All run, as all did before, and nobody came or went: the same members, without looking at them.
            self._since_full += 1
            mode, frame = records.SAME_ONES, b""
        else:
            found = self._admitted(plan, done.step)
            mode, frame = self._frame(counts, tokens)
        self._whole, self._last_step = whole, done.step
        self._forget()
        allocated, revived, freed, total, free, cached, seen = p.kv
        found.append((records.STEP, records.pack_step((
            done.step, p.start_ns, p.end_ns, done.start_ns, done.end_ns, allocated, revived, freed, done.cost_ns,
            len(counts), tokens, p.running, p.waiting, p.deferred, p.token_budget, p.sequence_cap, total, free, cached,
            done.outputs, done.drafts, done.accepted, p.preempted, p.preempted_tokens, _reason(p, tokens),
            done.work_left, seen, mode, frame,
        ))))  # fmt: skip
        return found

    def _forget(self) -> None:
        while self._leaving and self._leaving[0][0] + KEPT_STEPS < self._last_step:
            _, request_id, number = self._leaving.popleft()
            if self._numbers.get(request_id) == number:
                del self._numbers[request_id]

    def _admitted(self, plan: Any, step: int) -> List[Record]:
        found = [self._admit(new.req_id, 0, step, new.num_computed_tokens) for new in plan.scheduled_new_reqs]
        cached = plan.scheduled_cached_reqs
        if cached.resumed_req_ids:
            found += [
                self._admit(request_id, 1, step, computed)
                for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens)
                if request_id in cached.resumed_req_ids
            ]
        return found

    def _admit(self, request_id: str, again: int, step: int, computed: int) -> Record:
        return records.ADMIT, records.pack_admit((self._number(request_id), again, step, computed))

    def _frame(self, counts: Dict[str, int], tokens: int) -> Tuple[int, bytes]:
        members = list(counts)
        self._since_full += 1
        if members == self._members and self._since_full <= records.FULL_EVERY:
            if tokens == len(members):
                return records.SAME_ONES, b""
            try:
                return records.SAME_BYTES, bytes(counts.values())
            except ValueError:   # a chunk above 255 tokens
                return records.SAME_WORDS, array("I", counts.values()).tobytes()
        self._members, self._since_full = members, 1
        return records.FULL, records.full_frame(array("I", map(self._number, members)), array("I", counts.values()))

    def _number(self, request_id: str) -> int:
        number = self._numbers.get(request_id)
        if number is None:
            number = self._numbers[request_id] = self._next_number
            self._next_number += 1
        return number


def _reason(p: Planned, tokens: int) -> int:
    """Why requests wait, in the order of the engine's own admission loop: preemption, then budget, then cap."""
    if p.waiting <= p.deferred:
        return records.DEFERRED_ONLY if p.waiting else records.NOT_WAITING
    if p.preempted:
        return records.KV
    if tokens >= p.token_budget:
        return records.BUDGET
    return records.SEQUENCE_CAP if p.running >= p.sequence_cap else records.KV
