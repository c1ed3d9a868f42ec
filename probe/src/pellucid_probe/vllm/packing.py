"""Engine core: what the hooks noted → records. Runs where the outbox is flushed, in the order things were noted.

Only here are requests numbered and batches turned into frames, so the hooks need not look at members at all. A frame
is a delta: while all running requests get one token each and nobody comes or goes, a step is one flag.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Tuple

from pellucid_probe import records
from pellucid_probe.process import keyed_hash
from pellucid_probe.ring import Record
from pellucid_probe.vllm.kv.lives import Lives
from pellucid_probe.vllm.labels import reason_of

KEPT_STEPS = 4    # more than the engine has in flight
SAME_ONES = records.SAME + records.ONES

# What the hook of schedule() notes is a tuple, in the order of a Step; the update's hook looks at two of its fields.
Planned = Tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]
RUNNING, PREEMPTED = 6, 13

# What the update's hook adds: its start and end, the counters of our own cost and of grammar masks, requests, whether
# any request is left, tokens sampled and kept.
Noted = Tuple[Planned, int, int, int, int, int, bool, int]


class Packer:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self._numbers: Dict[str, int] = {}        # internal id → short number
        self._next_number = 1
        self._freed: List[Tuple[str, int]] = []                # id, number; since the last step that came here
        self._leaving: Deque[Tuple[int, str, int]] = deque()   # first step packed after it was freed, id, number
        self._members: List[str] = []
        self.lives: Optional[Lives] = None        # set where KV block lives are recorded
        self.cost_ns = self._grammar_ns = 0       # the counters at the last step
        self._seen = self._kv_total = 0

    def added(self, fields: "dict[str, Any]") -> List[Record]:
        first = fields["h"]
        self._numbers.pop(fields["i"], None)      # an id that comes again is another request
        known = {**fields, "r": self.number(fields["i"]),
                 "h": None if first is None else keyed_hash(self._key, bytes(first))}  # fmt: skip
        return [(records.ADD, records.pack_json(known))]

    def freed(self, seen: Tuple[str, int, int, int, int, int, Any]) -> List[Record]:
        """Internal id, time, step being updated, output tokens, computed tokens, preemptions, status: a member of the
        engine's enum, whose name is a call and so asked for here.

        The number stays: the step that ended the request, and one in flight, have it among their members.
        """
        number = self.number(seen[0])
        self._freed.append((seen[0], number))
        return [(records.FINISH, records.pack_finish((number, *seen[1:6], reason_of(seen[6].name))))]

    def preempted(self, seen: Tuple[str, int, int, int]) -> List[Record]:
        """Internal id, step being scheduled, time, positions lost."""
        return [(records.PREEMPT, records.pack_preempt((self.number(seen[0]), *seen[1:])))]

    def sees(self, what: Tuple[int, int]) -> List[Record]:
        """From the next step on: a sum of records.SEEN_*, and how many blocks can be held."""
        self._seen, self._kv_total = what
        return []

    def same(self, noted: Noted) -> List[Record]:
        """A step of the same requests as the one before, one token each."""
        requests = noted[5]
        return [(records.STEP, records.pack_step_head(*self._head(noted, requests), 0, 0, SAME_ONES))]

    def changed(self, seen: Tuple[Noted, Any, Any, bool]) -> List[Record]:
        """Any other step: what was noted, the engine's plan, what its update returned, whether to list everybody."""
        noted, plan, result, full = seen
        return self.step(((*self._head(noted, plan.total_num_scheduled_tokens), 0, 0, 0), plan, result, full))

    def _head(self, noted: Noted, tokens: int) -> Tuple[int, ...]:
        """The fields of a Step up to its outputs."""
        planned, start_ns, end_ns, cost_ns, grammar_ns, requests, work_left, outputs = noted
        (step, schedule_ns, planned_ns, allocated, revived, freed, running, waiting, blocked, budget, cap, free, cached,
         preempted, preempted_tokens) = planned  # fmt: skip
        spent_ns, self.cost_ns = max(0, cost_ns - self.cost_ns), cost_ns     # a capture takes its own part off
        masked_ns, self._grammar_ns = grammar_ns - self._grammar_ns, grammar_ns
        return (
            step, schedule_ns, planned_ns, start_ns, end_ns, allocated, revived, freed, spent_ns, masked_ns, requests,
            tokens, running, waiting, blocked, budget, cap, self._kv_total, free, cached, preempted, preempted_tokens,
            reason(waiting, blocked, preempted, tokens, budget, running, cap) if waiting else records.NOT_WAITING,
            work_left, self._seen, outputs,
        )  # fmt: skip

    def step(self, seen: Tuple[Tuple[int, ...], Any, Any, bool]) -> List[Record]:
        """The fields of a Step but its frame, the engine's plan, what its update returned, whether to list everybody.

        → the drafts and the admissions of the step, then the step.
        """
        head, plan, result, full = seen
        *front, outputs, drafts, accepted, _mode = head
        found: List[Record] = []
        if plan.scheduled_spec_decode_tokens:
            found, outputs, drafts, accepted = self._speculated(plan.scheduled_spec_decode_tokens, result)
        found += self._admitted(plan, head[0])
        if self.lives is not None:
            found += self._tables(self.lives, plan, head[0])
        mode, frame = self._frame(plan, full)
        self._forget(head[0])
        packed = records.pack_step_head(*front, outputs, drafts, accepted, mode)
        return [*found, (records.STEP, packed + frame)]

    def _speculated(self, drafts: Dict[str, Any], result: Any) -> Tuple[List[Record], int, int, int]:
        """The SPEC record; tokens kept, draft tokens, draft tokens accepted."""
        seen: List[int] = []
        kept = drafted = accepted = 0
        for per_client in result.values():
            for output in per_client.outputs:
                produced, proposed = len(output.new_token_ids), len(drafts.get(output.request_id, ()))
                kept += produced
                if proposed:
                    drafted += proposed
                    accepted += max(0, produced - 1)
                    seen += (self.number(output.request_id), proposed, produced)
        return [(records.SPEC, records.pack_spec(seen))] if seen else [], kept, drafted, accepted

    def _forget(self, step: int) -> None:
        """Counted from this step on: when a request was freed, the last step that came here may be long past."""
        while self._leaving and self._leaving[0][0] + KEPT_STEPS < step:
            _, request_id, number = self._leaving.popleft()
            if self._numbers.get(request_id) == number:
                del self._numbers[request_id]
        self._leaving.extend((step, *freed) for freed in self._freed)
        self._freed.clear()

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

    def _tables(self, lives: Lives, plan: Any, step: int) -> List[Record]:
        """Block tables of who was admitted, and of prompts that go on: their later chunks take more blocks."""
        found: List[Record] = []
        for new in plan.scheduled_new_reqs:
            found += lives.admitted(self.number(new.req_id), step, new.block_ids)
        cached, counts = plan.scheduled_cached_reqs, plan.num_scheduled_tokens
        if cached.resumed_req_ids or plan.total_num_scheduled_tokens != len(counts):
            for request_id, blocks in zip(cached.req_ids, cached.new_block_ids):
                if blocks is None:
                    continue
                if request_id in cached.resumed_req_ids:
                    found += lives.admitted(self.number(request_id), step, blocks)
                elif counts[request_id] > 1:
                    found += lives.more(self.number(request_id), step, blocks)
        return found

    def _admit(self, request_id: str, again: int, step: int, computed: int) -> Record:
        return records.ADMIT, records.pack_admit((self.number(request_id), again, step, computed))

    def _frame(self, plan: Any, full: bool) -> Tuple[int, bytes]:
        counts: Dict[str, int] = plan.num_scheduled_tokens
        members, before = list(counts), self._members
        self._members = members
        if not full:
            mode, head = (records.SAME, b"") if members == before else self._moved(plan, before, members)
            if mode != records.FULL:
                if plan.total_num_scheduled_tokens == len(members):
                    return mode + records.ONES, head
                try:
                    return mode + records.BYTES, head + bytes(counts.values())
                except ValueError:   # a chunk above 255 tokens
                    return mode + records.WORDS, head + array("I", counts.values()).tobytes()
        return records.full_frame(list(map(self.number, members)), list(counts.values()))

    def _moved(self, plan: Any, before: List[str], members: List[str]) -> Tuple[int, bytes]:
        """The engine drops who finished and appends who came; FULL when this batch is not made that way."""
        gone = [request_id for request_id in plan.finished_req_ids if request_id in before]
        stay = [request_id for request_id in before if request_id not in plan.finished_req_ids] if gone else before
        joined = members[len(stay) :]
        if members[: len(stay)] != stay:
            return records.FULL, b""
        return records.MOVED, records.moved_head(list(map(self.number, gone)), list(map(self.number, joined)))

    def number(self, request_id: str) -> int:
        number = self._numbers.get(request_id)
        if number is None:
            number = self._numbers[request_id] = self._next_number
            self._next_number += 1
        return number

    def known(self, request_id: str) -> int:
        """0 for one that has no number, or none any more."""
        return self._numbers.get(request_id, 0)


def reason(waiting: int, blocked: int, preempted: int, tokens: int, budget: int, running: int, cap: int) -> int:
    """Why requests wait, in the order of the engine's own admission loop: preemption, then budget, then cap."""
    if waiting <= blocked:
        return records.DEFERRED_ONLY
    if preempted:
        return records.KV
    if tokens >= budget:
        return records.BUDGET
    return records.SEQUENCE_CAP if running >= cap else records.KV
