"""Engine core: the two hooks that run in every step.

    schedule() ──▶ plan ──▶ workers ──▶ update_from_output()
    |t0       t1|                       |t2              t3|      noted after t3, packed later (packing.py)

A step is numbered when it is scheduled; the number rides on the plan (`plan.pellucid_step`), so it reaches the workers
and holds when two batches are in flight. A hook reads a dozen attributes and looks at no request. Each is one function:
between two steps the engine takes the caches, and the same reads spread over a few methods cost four times as much.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from pellucid_probe import records
from pellucid_probe.guard import COST, Hook, Target, now_ns
from pellucid_probe.outbox import FULL, Outbox
from pellucid_probe.vllm.kv.flow import KvFlow
from pellucid_probe.vllm.packing import PREEMPTED, RUNNING, Packer

_SCHEDULER = "vllm.v1.core.sched.scheduler"
SCHEDULE = Target(_SCHEDULER, "Scheduler.schedule", ("self",))
UPDATE = Target(_SCHEDULER, "Scheduler.update_from_output", ("self", "scheduler_output", "model_runner_output"))
GRAMMAR = Target(_SCHEDULER, "Scheduler.get_grammar_bitmask", ("self", "scheduler_output"))

READ_EVERY = 8    # steps between readings of the number of cached blocks, which moves slowly, and of our own backlog


class Steps:
    """What the hooks of one engine core share. Slots: one object is one or two cache lines, each fetched again."""

    __slots__ = ("due", "full_at", "grammar_ns", "kv", "kv_total", "outbox", "packer", "partial", "plans", "preempted",
                 "preempted_tokens", "quick", "scheduled", "seen", "sequence_cap", "updating", "whole")  # fmt: skip

    def __init__(self, outbox: Outbox, packer: Packer, kv: KvFlow) -> None:
        self.outbox, self.packer, self.kv = outbox, packer, kv
        self.due: Any = None                            # changes to make before the next step (live/changes.py)
        self.sequence_cap = "max_num_running_reqs"      # its name in this version
        self.seen = 0                                   # of records.SEEN_*
        self.partial: Any = None                        # stands for a scheduler that lacks something the hooks read
        self.quick = False                              # the scheduler's lists tell that nobody waits
        self.kv_total = 0                               # blocks that can be held
        self.scheduled = 0                              # the last step's number
        self.updating = 0                               # the step whose outputs are being processed, 0 between
        self.preempted = self.preempted_tokens = 0      # since the last schedule()
        self.grammar_ns = 0                             # filling grammar masks since the start
        self.whole = False                              # last step: one token for each running request
        self.full_at = 0                                # from this step on a frame is to list everybody
        self.plans: List[Tuple[int, ...]] = []          # scheduled, not yet updated; mostly one

    def relist(self) -> None:
        """A step is told by what changed since the one before. Where one is missing, the next lists everybody."""
        self.whole, self.full_at = False, 0


class ScheduleHook(Hook):
    __slots__ = ("steps",)

    def __init__(self, steps: Steps) -> None:
        super().__init__(SCHEDULE)
        self.steps = steps

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        steps, kv, cost, outbox = self.steps, self.steps.kv, COST, self.steps.outbox

        def schedule(*args: Any, **kwargs: Any) -> Any:
            if steps.due is not None:
                steps.due.apply(args[0])
            start_ns = now_ns()
            plan = original(*args, **kwargs)
            if self.on:
                end_ns = now_ns()
                try:
                    if plan.total_num_scheduled_tokens:    # one empty call follows the last finish
                        scheduler = args[0] if steps.partial is None else steps.partial
                        steps.scheduled = step = steps.scheduled + 1
                        plan.pellucid_step = step
                        if step % READ_EVERY == 1:
                            if kv.pool is not None:
                                kv.cached = len(kv.pool.cached_block_hash_to_block)
                            if step == 1:
                                steps.packer.cost_ns = cost.ns    # start-up is not a step's cost
                            if len(outbox.waiting) > FULL:
                                outbox.flush()
                        if steps.quick and len(scheduler.running) == len(scheduler.requests):
                            running, waiting, blocked = len(scheduler.running), 0, 0
                        else:
                            running, waiting = scheduler.get_request_counts()
                            blocked = min(waiting, deferred(scheduler)) if waiting else 0
                        steps.plans.append((
                            step, start_ns, end_ns, kv.allocated, kv.revived, kv.freed, running, waiting, blocked,
                            scheduler.max_num_scheduled_tokens, getattr(scheduler, steps.sequence_cap),
                            kv.queue.num_free_blocks, kv.cached, steps.preempted, steps.preempted_tokens,
                        ))  # fmt: skip
                        if steps.preempted:
                            steps.preempted = steps.preempted_tokens = 0
                    if kv.taken:
                        if kv.lives is not None:
                            outbox.put(kv.lives.taken, (end_ns, kv.taken))
                        kv.taken = []
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return plan

        return schedule


class UpdateHook(Hook):
    __slots__ = ("steps",)

    def __init__(self, steps: Steps) -> None:
        super().__init__(UPDATE)
        self.steps = steps

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        steps, cost = self.steps, COST
        outbox, plans, append = steps.outbox, steps.plans, steps.outbox.append
        pack_same, pack_changed = steps.packer.same, steps.packer.changed

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
                    planned = plans.pop(0) if plans and plans[0][0] == step else _take(plans, step)
                    if planned is not None:
                        outputs = 0
                        for per_client in result.values():
                            outputs += len(per_client.outputs)
                        requests = len(plan.num_scheduled_tokens)
                        whole = requests == planned[RUNNING] == plan.total_num_scheduled_tokens
                        work_left = bool(args[0].requests)
                        noted = (planned, start_ns, end_ns, cost.ns, steps.grammar_ns, requests, work_left, outputs)
                        if (
                            whole and steps.whole and step < steps.full_at and not planned[PREEMPTED]
                            and not plan.scheduled_new_reqs and not plan.finished_req_ids
                            and not plan.scheduled_cached_reqs.resumed_req_ids and not plan.scheduled_spec_decode_tokens
                        ):  # fmt: skip
                            append((pack_same, noted))
                        else:
                            steps.whole, full = whole, step >= steps.full_at
                            if full:
                                steps.full_at = step + records.FULL_EVERY
                            append((pack_changed, (noted, plan, result, full)))
                        if not work_left:
                            outbox.wake()
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return result

        return update_from_output


def _take(plans: "List[Tuple[int, ...]]", step: int) -> Optional[Tuple[int, ...]]:
    """What was noted of a step that is not the oldest in flight; None when its scheduling was not seen."""
    for place, planned in enumerate(plans):
        if planned[0] == step:
            return plans.pop(place)
    return None


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
