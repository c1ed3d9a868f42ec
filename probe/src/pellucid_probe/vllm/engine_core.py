"""Engine core: one STEP record per iteration, and what happens to requests in between.

    schedule() ──▶ plan ──▶ workers ──▶ update_from_output()
    |t0       t1|                       |t2              t3|      STEP is written after t3

A step is numbered when it is scheduled; the number rides on the plan (`plan.pellucid_step`), so it reaches the workers
and holds when two batches are in flight. Per step the batch costs one comparison while its members stay the same.
"""

from __future__ import annotations

from array import array
from typing import Any, Dict, List, Tuple

from pellucid_probe import records
from pellucid_probe.guard import Hook, StepHook, Target, argument, now_ns
from pellucid_probe.process import Process, keyed_hash
from pellucid_probe.vllm.config import effective
from pellucid_probe.vllm.kv import KvFlow
from pellucid_probe.vllm.labels import reason_of, task_of

_SCHEDULER = "vllm.v1.core.sched.scheduler"
INIT = Target(_SCHEDULER, "Scheduler.__init__", ("self", "vllm_config"))
SCHEDULE = Target(_SCHEDULER, "Scheduler.schedule", ("self",))
UPDATE = Target(_SCHEDULER, "Scheduler.update_from_output", ("self", "scheduler_output", "model_runner_output"))
ADD = Target(_SCHEDULER, "Scheduler.add_request", ("self", "request"))
PREEMPT = Target(_SCHEDULER, "Scheduler._preempt_request", ("self", "request"))
FREE = Target(_SCHEDULER, "Scheduler._free_request", ("self", "request"))
PREPROCESS = Target("vllm.v1.engine.core", "EngineCore.preprocess_add_request", ("self", "request"))

TARGETS: Dict[str, Tuple[Target, ...]] = {
    "core.config": (INIT,),
    "step.times": (SCHEDULE, UPDATE),
    "request.queued": (ADD,),
    "request.external_id": (PREPROCESS,),
    "request.preempted": (PREEMPT,),
    "request.freed": (FREE,),
    "kv.flow": KvFlow.TARGETS,
}
# Seen with step.times; each is checked on the first real step, since it needs attributes and not only methods.
WITH_STEPS = ("step.composition", "step.waiting_reason", "step.limits", "kv.blocks")

State = Any


class EngineCore:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.kv = KvFlow()
        self._step = 0
        self._in_update = 0                       # the step whose outputs are being processed, 0 between
        self._numbers: Dict[str, int] = {}        # internal id → short number
        self._next_number = 1
        self._members: List[str] = []
        self._since_full = records.FULL_EVERY
        self._plans: Dict[int, Tuple[Any, ...]] = {}    # scheduled, not yet updated
        self._preempted = self._preempted_tokens = 0
        self._cost_before = 0
        self._whole = False                       # last step: one token for each running request
        self._cap_name = "max_num_running_reqs"
        hooks = {
            INIT: Hook(INIT, after=self._made),
            SCHEDULE: StepHook(SCHEDULE, self._scheduled),
            UPDATE: StepHook(UPDATE, self._updated, before=self._updating),
            ADD: Hook(ADD, before=self._added),
            PREPROCESS: Hook(PREPROCESS, after=_carry_external_id),
            PREEMPT: Hook(PREEMPT, before=self._preempting),
            FREE: Hook(FREE, before=self._freeing),
        }
        for fact, targets in TARGETS.items():
            process.see(fact, self.kv.hooks() if fact == "kv.flow" else [hooks[t] for t in targets])
        self._probe_steps()

    def _probe_steps(self) -> None:
        steps = self.process.facts["step.times"]
        for fact in WITH_STEPS:
            if steps.state == "visible":
                self.process.facts[fact] = type(steps)("visible")
            else:
                self.process.blind(fact, steps.reason, steps.collect)

    def _made(self, _state: State, _result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        scheduler, config = args[0], argument(args, kwargs, 1, "vllm_config")
        self.process.config = effective(config)
        self.process.dp_rank = getattr(config.parallel_config, "data_parallel_rank", None)
        if hasattr(scheduler, "max_num_active_reqs"):
            self._cap_name = "max_num_active_reqs"
        _check(self.process, "kv.blocks", lambda: self.kv.attach(scheduler))
        _check(self.process, "step.waiting_reason", lambda: (scheduler.get_request_counts(), _deferred(scheduler)))
        limits = ("max_num_scheduled_tokens", self._cap_name)
        _check(self.process, "step.limits", lambda: [getattr(scheduler, name) for name in limits])
        self.process.describe()

    def _added(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        number = self._number(request.request_id)
        params = request.sampling_params
        hashes = getattr(request, "block_hashes", None)
        label = task_of(getattr(params, "extra_args", None))
        self.process.ring.write(records.ADD, records.pack_json({
            "r": number, "t": now_ns(), "i": request.request_id, "e": getattr(request, "pellucid_external", None),
            "c": request.client_index, "n": request.num_prompt_tokens, "m": request.max_tokens, "k": label,
            "h": keyed_hash(self.process.key, bytes(hashes[0])) if hashes else None,
        }))  # fmt: skip

    def _scheduled(
        self, start_ns: int, end_ns: int, plan: Any, args: Tuple[Any, ...], _kwargs: Dict[str, Any]
    ) -> None:
        tokens = plan.total_num_scheduled_tokens
        if not tokens:
            return    # one empty call follows the last finish
        scheduler = args[0]
        self._step += 1
        plan.pellucid_step = self._step
        if self._step == 1:
            self._cost_before = Hook.total_cost_ns    # start-up is not a step's cost
        counts = plan.num_scheduled_tokens
        requests = len(counts)
        running, waiting = scheduler.get_request_counts()
        deferred = min(waiting, _deferred(scheduler)) if waiting else 0
        budget, cap = scheduler.max_num_scheduled_tokens, getattr(scheduler, self._cap_name)
        preempted, preempted_tokens = self._preempted, self._preempted_tokens
        self._preempted = self._preempted_tokens = 0
        whole = tokens == requests == running
        changed = plan.scheduled_new_reqs or plan.finished_req_ids or plan.scheduled_cached_reqs.resumed_req_ids
        if whole and self._whole and not changed and not preempted and self._since_full < records.FULL_EVERY:
            # All run, as all did before, and nobody came or went: the same members, without looking at them.
            self._since_full += 1
            mode, frame = records.SAME_ONES, b""
        else:
            self._admitted(plan)
            mode, frame = self._frame(counts, tokens)
        self._whole = whole
        reason = records.NOT_WAITING
        if waiting > deferred:
            # The order of the engine's own admission loop: preemption stops it, then the budget, then the cap.
            reason = (records.KV if preempted else records.BUDGET if tokens >= budget
                      else records.SEQUENCE_CAP if running >= cap else records.KV)  # fmt: skip
        elif waiting:
            reason = records.DEFERRED_ONLY
        self._plans[self._step] = (
            start_ns, end_ns, self.kv.state(self._step), requests, tokens, running, waiting,
            deferred, budget, cap, preempted, preempted_tokens, reason, mode, frame,
        )  # fmt: skip

    def _admitted(self, plan: Any) -> None:
        for new in plan.scheduled_new_reqs:
            self._admit(new.req_id, 0, new.num_computed_tokens)
        cached = plan.scheduled_cached_reqs
        if cached.resumed_req_ids:
            for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens):
                if request_id in cached.resumed_req_ids:
                    self._admit(request_id, 1, computed)

    def _admit(self, request_id: str, again: int, computed: int) -> None:
        record = records.Admit(self._number(request_id), again, self._step, computed)
        self.process.ring.write(records.ADMIT, records.pack_admit(record))

    def _frame(self, counts: Dict[str, int], tokens: int) -> Tuple[int, bytes]:
        members = list(counts)
        self._since_full += 1
        if members == self._members and self._since_full < records.FULL_EVERY:
            if tokens == len(members):
                return records.SAME_ONES, b""
            try:
                return records.SAME_BYTES, bytes(counts.values())
            except ValueError:   # a chunk above 255 tokens
                return records.SAME_WORDS, array("I", counts.values()).tobytes()
        self._members, self._since_full = members, 0
        try:
            numbers = array("I", map(self._numbers.__getitem__, members))
        except KeyError:
            numbers = array("I", map(self._number, members))
        return records.FULL, records.full_frame(numbers, array("I", counts.values()))

    def _number(self, request_id: str) -> int:
        number = self._numbers.get(request_id)
        if number is None:
            number = self._numbers[request_id] = self._next_number
            self._next_number += 1
        return number

    def _updating(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        plan = argument(args, kwargs, 1, "scheduler_output")
        self._in_update = getattr(plan, "pellucid_step", 0)

    def _updated(
        self, start_ns: int, end_ns: int, result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> None:
        plan = args[1] if len(args) > 1 else kwargs["scheduler_output"]
        step, self._in_update = self._in_update, 0
        planned = self._plans.pop(step, None)
        if planned is None:
            return
        (plan_start, plan_end, kv, requests, tokens, running, waiting, deferred, budget, cap, preempted,
         preempted_tokens, reason, mode, frame) = planned  # fmt: skip
        outputs, drafts, accepted = self._outputs(plan, result)
        cost, self._cost_before = Hook.total_cost_ns - self._cost_before, Hook.total_cost_ns
        self.process.ring.write(records.STEP, records.pack_step_head(
            step, plan_start, plan_end, start_ns, end_ns, kv[0], kv[1], kv[2], cost, requests, tokens,
            running, waiting, deferred, budget, cap, kv[3], kv[4], kv[5], outputs, drafts, accepted, preempted,
            preempted_tokens, reason, bool(args[0].requests), kv[6], mode,
        ) + frame)  # fmt: skip

    def _outputs(self, plan: Any, result: Any) -> Tuple[int, int, int]:
        """Tokens kept, draft tokens, draft tokens accepted. One token per output unless there is speculation."""
        drafts = plan.scheduled_spec_decode_tokens
        if not drafts:
            kept = 0
            for per_client in result.values():
                kept += len(per_client.outputs)
            return kept, 0, 0
        triples: List[int] = []
        kept = drafted = accepted = 0
        for per_client in result.values():
            for output in per_client.outputs:
                produced = len(output.new_token_ids)
                kept += produced
                proposed = len(drafts.get(output.request_id, ()))
                if proposed:
                    drafted += proposed
                    accepted += max(0, produced - 1)
                    triples += (self._numbers.get(output.request_id, 0), proposed, produced)
        if triples:
            self.process.ring.write(records.SPEC, records.pack_spec(triples))
        return kept, drafted, accepted

    def _preempting(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        lost = request.num_computed_tokens
        self._preempted += 1
        self._preempted_tokens += lost
        record = records.Preempt(self._number(request.request_id), self._step + 1, now_ns(), lost)
        self.process.ring.write(records.PREEMPT, records.pack_preempt(record))

    def _freeing(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        self.process.ring.write(records.FINISH, records.pack_json({
            "r": self._number(request.request_id), "t": now_ns(), "s": reason_of(request.status.name),
            "u": self._in_update, "o": request.num_output_tokens, "c": request.num_computed_tokens,
            "p": request.num_preemptions,
        }))  # fmt: skip
        self._numbers.pop(request.request_id, None)


def _carry_external_id(_state: State, result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    """`Request` drops the external id; it rides along as an attribute, so no table is shared between threads."""
    request = argument(args, kwargs, 1, "request")
    result[0].pellucid_external = getattr(request, "external_req_id", None)


def _deferred(scheduler: Any) -> int:
    blocked = getattr(scheduler, "deferred_waiting", None)
    return len(scheduler.skipped_waiting if blocked is None else blocked)


def _check(process: Process, fact: str, read: Any) -> None:
    try:
        read()
    except Exception as error:
        process.blind(fact, f"{type(error).__name__}: {error}", "use an engine version of the tested table")
