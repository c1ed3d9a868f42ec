"""Engine core: its hooks. Those of every step are in steps.py; here is what happens to requests in between."""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, Dict, Optional, Tuple

from pellucid_probe import records
from pellucid_probe.guard import COST, Hook, StepHook, Target, argument, now_ns
from pellucid_probe.process import Process
from pellucid_probe.vllm.config import architecture, effective, kv_cache_bytes, kv_context_blocks
from pellucid_probe.vllm.kv.flow import KvFlow
from pellucid_probe.vllm.kv.lives import Inputs, Lives
from pellucid_probe.vllm.kv.tiers import Tiers
from pellucid_probe.vllm.labels import sampling_of, task_of
from pellucid_probe.vllm.live import CoreLive
from pellucid_probe.vllm.packing import Packer
from pellucid_probe.vllm.steps import GRAMMAR, SCHEDULE, UPDATE, Partial, ScheduleHook, Steps, UpdateHook, deferred

_SCHEDULER = "vllm.v1.core.sched.scheduler"
INIT = Target(_SCHEDULER, "Scheduler.__init__", ("self", "vllm_config"))
ADD = Target(_SCHEDULER, "Scheduler.add_request", ("self", "request"))
PREEMPT = Target(_SCHEDULER, "Scheduler._preempt_request", ("self", "request"))
FREE = Target(_SCHEDULER, "Scheduler._free_request", ("self", "request"))
PREPROCESS = Target("vllm.v1.engine.core", "EngineCore.preprocess_add_request", ("self", "request"))

TARGETS: Dict[str, Tuple[Target, ...]] = {
    "core.config": (INIT,),
    "step.times": (SCHEDULE, UPDATE),
    "step.grammar": (GRAMMAR,),
    "request.queued": (ADD,),
    "request.sampling": (ADD,),
    "request.external_id": (PREPROCESS,),
    "request.preempted": (PREEMPT,),
    "request.freed": (FREE,),
    "kv.flow": KvFlow.TARGETS,
}
MULTIMODAL = "kv.multimodal"        # seen with kv.lives
# Seen with step.times; each is checked on the first real step, since it needs attributes and not only methods.
WITH_STEPS = ("step.composition", "step.waiting_reason", "step.limits", "kv.blocks")

State = Any


class EngineCore:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.kv = KvFlow(process.outbox)
        self.packer = Packer(process.key)
        self.lives = Lives(process.key, self.packer.number)
        self.steps = Steps(process.outbox, self.packer, self.kv)
        self.grammar = StepHook(GRAMMAR, self._masked)
        self.samples = False                   # whether sampling parameters are as we know them
        hooks = {
            INIT: Hook(INIT, after=self._made),
            SCHEDULE: ScheduleHook(self.steps),
            UPDATE: UpdateHook(self.steps),
            GRAMMAR: self.grammar,
            ADD: Hook(ADD, before=self._added),
            PREPROCESS: Hook(PREPROCESS, after=_carry_external_id),
            PREEMPT: Hook(PREEMPT, before=self._preempting),
            FREE: FreeHook(self),
        }
        for fact, targets in TARGETS.items():
            process.see(fact, self.kv.hooks if fact == "kv.flow" else [hooks[t] for t in targets])
        process.see("kv.lives", [self.kv.clear])
        self._probe_steps()
        process.facts[MULTIMODAL] = process.facts["kv.lives"]
        self.live = CoreLive(process, self.steps)
        self.tiers = Tiers(process, self.packer.known)
        for hook in (*self.kv.hooks, self.grammar):
            hook.on_silence = self._look
        process.on_resume.append(self._resumed)
        process.outbox.on_error = self.steps.relist
        self._look()

    def _resumed(self) -> None:
        """After a pause: a step number is left out, so that nobody takes the next step for the one after the last."""
        steps = self.steps
        steps.scheduled += 1
        steps.plans.clear()
        steps.relist()
        self.kv.taken = []
        self.process.outbox.put(self.lives.lost, now_ns())     # those of an outer tier, too

    def _look(self) -> None:
        """A hook that is not in place, or fell silent, sees nothing."""
        hooks, facts = self.process.hooks, self.process.facts
        self.steps.seen = (
            (self.kv.pool is not None and records.SEEN_KV_BLOCKS)
            + ("kv.flow" in hooks and all(hook.on for hook in self.kv.hooks) and records.SEEN_KV_FLOW)
            + ("step.grammar" in hooks and self.grammar.on and records.SEEN_GRAMMAR)
            + (facts["step.limits"].state == "visible" and records.SEEN_LIMITS)
            + (facts["step.waiting_reason"].state == "visible" and records.SEEN_WAITING)
        )
        self.process.outbox.put(self.packer.sees, (self.steps.seen, self.steps.kv_total))    # of the steps from here on

    def _probe_steps(self) -> None:
        steps = self.process.facts["step.times"]
        for fact in WITH_STEPS:
            if steps.state == "visible":
                self.process.facts[fact] = type(steps)("visible")
            else:
                self.process.blind(fact, steps.reason, steps.collect)
        config = self.process.facts["core.config"]
        if config.state == "blind":     # nobody shows us the scheduler, and with it the pool
            for fact in ("kv.blocks", "kv.lives"):
                self.process.blind(fact, config.reason, config.collect)

    def _made(self, _state: State, _result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        scheduler, config = args[0], argument(args, kwargs, 1, "vllm_config")
        sizes = {"kv_cache_bytes": kv_cache_bytes(scheduler), "kv_context_blocks": kv_context_blocks(scheduler)}
        self.process.config = {**effective(config), **sizes, "architecture_json": architecture(config)}
        self.process.dp_rank = getattr(config.parallel_config, "data_parallel_rank", None)
        if hasattr(scheduler, "max_num_active_reqs"):
            self.steps.sequence_cap = "max_num_active_reqs"
        _check(self.process, "kv.blocks", lambda: self._attach(scheduler))
        _check(self.process, "step.waiting_reason", lambda: (scheduler.get_request_counts(), deferred(scheduler)))
        limits = ("max_num_scheduled_tokens", self.steps.sequence_cap)
        _check(self.process, "step.limits", lambda: [getattr(scheduler, name) for name in limits])
        self._do_without(scheduler, limits)
        _check(self.process, "request.sampling", self._begin_sampling)
        _check(self.process, "kv.lives", lambda: self._begin_lives(scheduler, config))
        self.process.facts[MULTIMODAL] = self.process.facts["kv.lives"]
        self.live.attach(scheduler)
        self.tiers.attach(scheduler)
        self._look()
        self.process.describe()

    def _do_without(self, scheduler: Any, limits: Tuple[str, ...]) -> None:
        """What the scheduler lacks costs the facts that need it, not the step."""
        facts = self.process.facts
        absent: Dict[str, Any] = {}
        if facts["step.limits"].state == "blind":
            absent.update(dict.fromkeys(limits, 0))
        if facts["step.waiting_reason"].state == "blind":
            absent.update({"get_request_counts": lambda: (0, 0), "deferred_waiting": ()})
        elif absent:    # the reason is told by the limits
            facts["step.waiting_reason"] = facts["step.limits"]
        if absent:
            self.steps.partial = Partial(scheduler, absent)
        # Everybody alive runs: nobody waits, and the engine's own count, a call that calls on, is not needed.
        self.steps.quick = not absent and hasattr(scheduler, "running") and hasattr(scheduler, "requests")

    def _attach(self, scheduler: Any) -> None:
        self.steps.kv_total = self.kv.attach(scheduler)

    def _begin_sampling(self) -> None:
        """On the defaults, before any request: one that lacks something would otherwise cost all that is queued."""
        if self.process.facts["request.sampling"].state == "visible":
            sampling_of(importlib.import_module("vllm.sampling_params").SamplingParams())
            self.samples = True

    def _begin_lives(self, scheduler: Any, config: Any) -> None:
        facts = self.process.facts
        needs = [facts[name] for name in ("kv.lives", "kv.flow", "kv.blocks", "request.freed", "request.queued")]
        missing = next((fact for fact in needs if fact.state != "visible"), None)
        if os.environ.get("PELLUCID_KV_LIVES") == "0":
            self.process.blind("kv.lives", "turned off: PELLUCID_KV_LIVES=0", "start the engine without it")
        elif missing is not None:
            self.process.blind("kv.lives", missing.reason, missing.collect)
        elif not config.cache_config.enable_prefix_caching:
            self.process.blind("kv.lives", "prefix caching is off", "run the engine with --enable-prefix-caching")
        else:
            pool = self.kv.pool
            self.lives.block_tokens = int(getattr(pool, "hash_block_size", 0) or config.cache_config.block_size)
            scheduler.kv_cache_manager.get_blocks  # noqa: B018
            self.kv.lives = self.packer.lives = self.lives

    def _added(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        hashes, params = getattr(request, "block_hashes", None), request.sampling_params
        self.process.outbox.put(self.packer.added, {
            "t": now_ns(), "i": request.request_id, "e": getattr(request, "pellucid_external", None),
            "c": request.client_index, "n": request.num_prompt_tokens, "m": request.max_tokens,
            "k": task_of(getattr(params, "extra_args", None)), "h": hashes[0] if hashes else None,
            "a": sampling_of(params) if self.samples and params is not None else None,
        })  # fmt: skip
        if self.kv.lives is not None and hashes is not None:
            lora = getattr(request, "lora_request", None)
            self.process.outbox.put(self.lives.prompt, (
                request.request_id, hashes, request.prompt_token_ids, request.num_prompt_tokens,
                bool(getattr(request, "skip_reading_prefix_cache", False)), getattr(request, "cache_salt", None),
                getattr(lora, "lora_name", None), self._inputs(request),
            ))  # fmt: skip

    def _inputs(self, request: Any) -> Optional[Inputs]:
        """A copy of what is needed: the features hold the images themselves."""
        try:
            features = request.mm_features
            return [(feature.identifier, feature.mm_position.offset) for feature in features] if features else ()
        except AttributeError as error:
            self.process.blind(MULTIMODAL, str(error), "use an engine version of the tested table, or report this one")
            return None

    def _masked(
        self, start_ns: int, end_ns: int, masks: Any, _args: Tuple[Any, ...], _kwargs: Dict[str, Any]
    ) -> None:
        if masks is not None:
            self.steps.grammar_ns += end_ns - start_ns

    def _preempting(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        request = argument(args, kwargs, 1, "request")
        steps, lost = self.steps, request.num_computed_tokens
        steps.preempted += 1
        steps.preempted_tokens += lost
        self.process.outbox.put(self.packer.preempted, (request.request_id, steps.scheduled + 1, now_ns(), lost))
        self.letting_go(args[0], request, False)

    def letting_go(self, scheduler: Any, request: Any, for_good: bool) -> None:
        if self.kv.lives is not None:
            blocks = scheduler.kv_cache_manager.get_blocks(request.request_id).blocks
            self.process.outbox.put(self.lives.let_go, (request.request_id, blocks, request.block_hashes, for_good))


class FreeHook(Hook):
    """Many a step where a batch ends together; flat, as the hooks of a step are."""

    __slots__ = ("core",)

    def __init__(self, core: EngineCore) -> None:
        super().__init__(FREE)
        self.core = core

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        core, steps, kv, cost = self.core, self.core.steps, self.core.kv, COST
        append, pack = core.process.outbox.append, core.packer.freed

        def _free_request(scheduler: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            if self.on:
                start_ns = now_ns()
                try:
                    if kv.lives is not None:
                        core.letting_go(scheduler, request, True)
                    append((pack, (
                        request.request_id, start_ns, steps.updating, request.num_output_tokens,
                        request.num_computed_tokens, request.num_preemptions, request.status,
                    )))  # fmt: skip
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - start_ns
            return original(scheduler, request, *args, **kwargs)

        return _free_request


def _carry_external_id(_state: State, result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    """`Request` drops the external id; it rides along as an attribute, so no table is shared between threads."""
    request = argument(args, kwargs, 1, "request")
    result[0].pellucid_external = getattr(request, "external_req_id", None)


def _check(process: Process, fact: str, read: Any) -> None:
    try:
        read()
    except Exception as error:
        process.blind(fact, f"{type(error).__name__}: {error}", "use an engine version of the tested table")
