"""Engine core: the two hooks that run in every step.

    schedule() ──▶ plan ──▶ workers ──▶ update_from_output()
    |t0       t1|                       |t2              t3|      noted after t3, packed later (packing.py)

A step is numbered when it is scheduled; the number rides on the plan (`plan.pellucid_step`), so it reaches the workers
and holds when two batches are in flight. A hook reads a dozen attributes and looks at no request. Each is one function:
between two steps the engine takes the caches, and the same reads spread over a few methods cost four times as much.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

from pellucid_probe import records
from pellucid_probe.guard import COST, Hook, Target, now_ns
from pellucid_probe.outbox import Outbox
from pellucid_probe.vllm.kv import KvFlow
from pellucid_probe.vllm.packing import Packer

_SCHEDULER = "vllm.v1.core.sched.scheduler"
SCHEDULE = Target(_SCHEDULER, "Scheduler.schedule", ("self",))
UPDATE = Target(_SCHEDULER, "Scheduler.update_from_output", ("self", "scheduler_output", "model_runner_output"))
GRAMMAR = Target(_SCHEDULER, "Scheduler.get_grammar_bitmask", ("self", "scheduler_output"))

SAME_ONES = records.SAME + records.ONES
CACHED_EVERY = 8    # steps between readings of the number of cached blocks, which moves slowly


class Steps:
    """What the hooks of one engine core share."""

    def __init__(self, outbox: Outbox, packer: Packer, kv: KvFlow) -> None:
        self.outbox, self.packer, self.kv = outbox, packer, kv
        self.due: Any = None                            # changes to make before the next step (live/changes.py)
        self.sequence_cap = "max_num_running_reqs"      # its name in this version
        self.seen = 0                                   # of records.SEEN_*
        self.partial: Any = None                        # stands for a scheduler that lacks something the hooks read
        self.kv_total = 0                               # blocks that can be held
        self.scheduled = 0                              # the last step's number
        self.updating = 0                               # the step whose outputs are being processed, 0 between
        self.preempted = self.preempted_tokens = 0      # since the last schedule()
        self.grammar_ns = 0                             # filling grammar masks since the last update
        self.whole = False                              # last step: one token for each running request
        self.since_full = records.FULL_EVERY            # steps since a frame listed everybody
        self.cost_ns = 0                                # of our hooks up to the last step
        self.plans: Dict[int, Tuple[Any, ...]] = {}     # scheduled, not yet updated


class ScheduleHook(Hook):
    def __init__(self, steps: Steps) -> None:
        super().__init__(SCHEDULE)
        self.steps = steps

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        steps, plans, kv, put, cost = self.steps, self.steps.plans, self.steps.kv, self.steps.outbox.put, COST

        def schedule(*args: Any, **kwargs: Any) -> Any:
            if steps.due is not None:
                steps.due.apply(args[0])
            start_ns = now_ns()
            plan = original(*args, **kwargs)
            if self.on:
                end_ns = now_ns()
                try:
                    tokens = plan.total_num_scheduled_tokens
                    if tokens:    # one empty call follows the last finish
                        scheduler = args[0] if steps.partial is None else steps.partial
                        running, waiting = scheduler.get_request_counts()
                        steps.scheduled = step = steps.scheduled + 1
                        plan.pellucid_step = step
                        if step % CACHED_EVERY == 1:
                            if kv.pool is not None:
                                kv.cached = len(kv.pool.cached_block_hash_to_block)
                            if step == 1:
                                steps.cost_ns = cost.ns    # start-up is not a step's cost
                        plans[step] = (
                            start_ns, end_ns, kv.new.total, kv.touch.total, kv.free.total, running, waiting,
                            min(waiting, deferred(scheduler)) if waiting else 0, scheduler.max_num_scheduled_tokens,
                            getattr(scheduler, steps.sequence_cap), kv.queue.num_free_blocks, kv.cached,
                            steps.preempted, steps.preempted_tokens,
                        )  # fmt: skip
                        steps.preempted = steps.preempted_tokens = 0
                    if kv.taken and kv.lives is not None:
                        put(kv.lives.taken, (end_ns, kv.taken))
                        kv.taken = []
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return plan

        return schedule


class UpdateHook(Hook):
    def __init__(self, steps: Steps) -> None:
        super().__init__(UPDATE)
        self.steps = steps

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        steps, cost = self.steps, COST
        plans, outbox, put, pack = steps.plans, steps.outbox, steps.outbox.put, steps.packer.step
        ready, pack_same = outbox.ready, records.pack_step_head

        def update_from_output(*args: Any, **kwargs: Any) -> Any:
            start_ns = now_ns()
            plan: Any = None
            if self.on:
                try:
                    plan = args[1] if len(args) > 1 else kwargs["scheduler_output"]
                    steps.updating = getattr(plan, "pellucid_step", 0)
                except Exception as error:
                    self.fail(error)
            result = original(*args, **kwargs)
            if self.on:
                end_ns = now_ns()
                try:
                    step, steps.updating = steps.updating, 0
                    planned = plans.pop(step, None)
                    if planned is not None:
                        (schedule_ns, planned_ns, allocated, revived, freed, running, waiting, blocked, budget, cap,
                         free, cached, preempted, preempted_tokens) = planned  # fmt: skip
                        counts, tokens = plan.num_scheduled_tokens, plan.total_num_scheduled_tokens
                        outputs = 0
                        for per_client in result.values():
                            outputs += len(per_client.outputs)
                        requests = len(counts)
                        work_left = bool(args[0].requests)
                        whole = tokens == requests == running
                        same = (
                            whole and steps.whole and not preempted and not plan.scheduled_new_reqs
                            and not plan.finished_req_ids and not plan.scheduled_cached_reqs.resumed_req_ids
                        )  # fmt: skip
                        steps.whole = whole
                        spent_ns, steps.cost_ns = cost.ns - steps.cost_ns, cost.ns
                        head = (
                            step, schedule_ns, planned_ns, start_ns, end_ns, allocated, revived, freed, spent_ns,
                            steps.grammar_ns, requests, tokens, running, waiting, blocked, budget, cap,
                            steps.kv_total, free, cached, preempted, preempted_tokens,
                            reason(waiting, blocked, preempted, tokens, budget, running, cap) if waiting else 0,
                            work_left, steps.seen, outputs, 0, 0, SAME_ONES,
                        )  # fmt: skip
                        full = steps.since_full >= records.FULL_EVERY
                        steps.since_full = 1 if full else steps.since_full + 1
                        if same and not full and not plan.scheduled_spec_decode_tokens:
                            ready((records.STEP, pack_same(*head)))
                        else:
                            put(pack, (head, plan, result, full))
                        steps.grammar_ns = 0
                        if not work_left:    # nobody waits now, and the engine may be stopped before our thread comes
                            outbox.flush()
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return result

        return update_from_output


def reason(waiting: int, blocked: int, preempted: int, tokens: int, budget: int, running: int, cap: int) -> int:
    """Why requests wait, in the order of the engine's own admission loop: preemption, then budget, then cap."""
    if waiting <= blocked:
        return records.DEFERRED_ONLY
    if preempted:
        return records.KV
    if tokens >= budget:
        return records.BUDGET
    return records.SEQUENCE_CAP if running >= cap else records.KV


class Partial:
    """A scheduler in which some names have a value of ours: what it does not have must not silence the whole hook."""

    def __init__(self, scheduler: Any, absent: Dict[str, Any]) -> None:
        self._scheduler = scheduler
        self.__dict__.update(absent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


def deferred(scheduler: Any) -> int:
    """Waiting requests that cannot be admitted yet for a reason of their own."""
    blocked = getattr(scheduler, "deferred_waiting", None)
    return len(scheduler.skipped_waiting if blocked is None else blocked)
