"""Engine core: one STEP record per iteration, and what happens to requests in between.

    schedule() ──▶ plan ──▶ workers ──▶ update_from_output()
    |t0       t1|                       |t2              t3|      noted after t3, packed later (packing.py)

A step is numbered when it is scheduled; the number rides on the plan (`plan.pellucid_step`), so it reaches the workers
and holds when two batches are in flight. The hooks read a dozen attributes a step and look at no request.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from pellucid_probe.guard import Hook, StepHook, Target, argument, now_ns
from pellucid_probe.process import Process
from pellucid_probe.vllm.config import effective
from pellucid_probe.vllm.kv import KvFlow
from pellucid_probe.vllm.labels import reason_of, task_of
from pellucid_probe.vllm.packing import Packer

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
        self.packer = Packer(process.key)
        self._put, self._pack_step = process.outbox.put, self.packer.step
        self._step = 0
        self._in_update = 0                             # the step whose outputs are being processed, 0 between
        self._plans: Dict[int, Tuple[Any, ...]] = {}            # scheduled, not yet updated
        self._preempted = self._preempted_tokens = 0    # since the last schedule()
        self._cost_before = 0
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
        hashes = getattr(request, "block_hashes", None)
        self.process.outbox.put(self.packer.added, {
            "t": now_ns(), "i": request.request_id, "e": getattr(request, "pellucid_external", None),
            "c": request.client_index, "n": request.num_prompt_tokens, "m": request.max_tokens,
            "k": task_of(getattr(request.sampling_params, "extra_args", None)), "h": hashes[0] if hashes else None,
        })  # fmt: skip

    def _scheduled(
        self, start_ns: int, end_ns: int, plan: Any, args: Tuple[Any, ...], _kwargs: Dict[str, Any]
    ) -> None:
        if not plan.total_num_scheduled_tokens:
            return    # one empty call follows the last finish
        scheduler = args[0]
        step = self._step = self._step + 1
        plan.pellucid_step = step
        if step == 1:
            self._cost_before = Hook.total_cost_ns    # start-up is not a step's cost
        running, waiting = scheduler.get_request_counts()
        # A plain tuple in the order of Planned: the named one costs a call more.
        self._plans[step] = (
            start_ns, end_ns, running, waiting, min(waiting, _deferred(scheduler)) if waiting else 0,
            scheduler.max_num_scheduled_tokens, getattr(scheduler, self._cap_name), self.kv.state(step),
            self._preempted, self._preempted_tokens,
        )  # fmt: skip
        self._preempted = self._preempted_tokens = 0

    def _updating(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        plan = args[1] if len(args) > 1 else kwargs["scheduler_output"]
        self._in_update = getattr(plan, "pellucid_step", 0)

    def _updated(
        self, start_ns: int, end_ns: int, result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> None:
        step, self._in_update = self._in_update, 0
        planned = self._plans.pop(step, None)
        if planned is None:
            return
        plan = args[1] if len(args) > 1 else kwargs["scheduler_output"]
        if plan.scheduled_spec_decode_tokens:
            outputs, drafts, accepted = self._speculated(plan.scheduled_spec_decode_tokens, result)
        else:
            outputs = drafts = accepted = 0
            for per_client in result.values():
                outputs += len(per_client.outputs)      # one token each
        cost, self._cost_before = Hook.total_cost_ns - self._cost_before, Hook.total_cost_ns
        # In the order of Done.
        work_left = bool(args[0].requests)
        self._put(self._pack_step, (
            step, planned, plan, start_ns, end_ns, outputs, drafts, accepted, work_left, cost,
        ))  # fmt: skip
        if not work_left:
            self.process.outbox.flush()    # nobody waits now, and the engine may be stopped before our thread comes

    def _speculated(self, drafts: Dict[str, Any], result: Any) -> Tuple[int, int, int]:
        """Tokens kept, draft tokens, draft tokens accepted."""
        seen: List[Tuple[str, int, int]] = []
        kept = drafted = accepted = 0
        for per_client in result.values():
            for output in per_client.outputs:
                produced, proposed = len(output.new_token_ids), len(drafts.get(output.request_id, ()))
                kept += produced
                if proposed:
                    drafted += proposed
                    accepted += max(0, produced - 1)
                    seen.append((output.request_id, proposed, produced))
        if seen:
            self.process.outbox.put(self.packer.speculated, seen)
        return kept, drafted, accepted

    def _preempting(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        lost = request.num_computed_tokens
        self._preempted += 1
        self._preempted_tokens += lost
        self.process.outbox.put(self.packer.preempted, (request.request_id, self._step + 1, now_ns(), lost))

    def _freeing(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        self.process.outbox.put(self.packer.freed, {
            "i": request.request_id, "t": now_ns(), "s": reason_of(request.status.name), "u": self._in_update,
            "o": request.num_output_tokens, "c": request.num_computed_tokens, "p": request.num_preemptions,
        })  # fmt: skip


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
