"""Which settings of a running engine can be changed, by process; pellucid_probe/control.py is how one is asked for.

    engine core   sequence_cap, scheduled_token_budget, long_prefill_threshold, long_prefill_adaptive,
                  admission_watermark, reserve_full_prompt, draft_table, no_drafts_for_tasks
    frontend      queued_requests_cap, queued_tokens_cap

Nothing is said of any of them unless live control was asked for. Bounds are those with which the engine goes on: below
and above, its own classes hang, assert, or leave requests waiting for ever.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Tuple

from pellucid_probe.control import Control, Knob
from pellucid_probe.guard import Hook, Target, argument
from pellucid_probe.process import Fact, Process
from pellucid_probe.vllm.live.changes import StepChanges
from pellucid_probe.vllm.live.knobs import BlockShare, DraftTable, Switch, Tasks, Whole

INPUT = Target("vllm.v1.engine.input_processor", "InputProcessor.__init__", ("self", "vllm_config"))
ADMIT = Target("vllm.v1.engine.async_llm", "AsyncLLM.check_admission", ("self",))
MOST_QUEUED = 2**31 - 1
OTHER_VERSION = "use an engine version of the tested table, or report this one"

Make = Callable[[Any, StepChanges], Knob]


class NotHere(Exception):
    """This engine does not do what the setting is about. Nothing is said of it."""


def _sequence_cap(scheduler: Any, changes: StepChanges) -> Knob:
    # Not max_num_running_reqs: older versions compare it with ==, and one more than it is fatal.
    return Whole(scheduler, "max_num_active_reqs", 1, scheduler.max_num_running_reqs, changes)


def _token_budget(scheduler: Any, changes: StepChanges) -> Knob:
    config = scheduler.scheduler_config
    # With drafts, the engine has made room for them in the value it starts with.
    most = scheduler.max_num_scheduled_tokens if scheduler.num_spec_tokens else config.max_num_batched_tokens
    least = _smallest_chunk(scheduler) if config.enable_chunked_prefill else scheduler.max_model_len
    return Whole(scheduler, "max_num_scheduled_tokens", least, most, changes)


def _prefill_threshold(scheduler: Any, changes: StepChanges) -> Knob:
    config = scheduler.scheduler_config
    if not config.enable_chunked_prefill:
        raise NotHere("chunked prefill is off")
    least = _smallest_chunk(scheduler)
    return Whole(config, "long_prefill_token_threshold", least, scheduler.max_model_len, changes, 0)


def _smallest_chunk(scheduler: Any) -> int:
    """Tokens without which some request would never be scheduled, or an assertion on padded drafts would fail."""
    least = [1 + int(scheduler.num_spec_tokens)]
    if getattr(scheduler, "need_mamba_block_aligned_split", False):
        least.append(scheduler.block_size)
    if getattr(scheduler.scheduler_config, "disable_chunked_mm_input", False):
        least.append(getattr(scheduler, "max_num_encoder_input_tokens", 0))
    return max(least)


def _prefill_adaptive(scheduler: Any, changes: StepChanges) -> Knob:
    return Switch(scheduler, "adaptive_long_prefill_threshold", changes)


def _watermark(scheduler: Any, changes: StepChanges) -> Knob:
    manager = scheduler.kv_cache_manager
    return BlockShare(manager, "watermark_blocks", manager.block_pool.num_gpu_blocks, changes)


def _reserve(scheduler: Any, changes: StepChanges) -> Knob:
    return Switch(scheduler, "scheduler_reserve_full_isl", changes)


def _draft_table(scheduler: Any, changes: StepChanges) -> Knob:
    if scheduler.dynamic_sd_lookup is None:
        raise NotHere("the engine was not started with draft lengths by batch size")
    return DraftTable(scheduler, "dynamic_sd_lookup", changes)


def _no_drafts(scheduler: Any, changes: StepChanges) -> Knob:
    if not scheduler.num_spec_tokens:
        raise NotHere("the engine drafts nothing: speculation is not configured")
    scheduler.running  # noqa: B018
    return Tasks(changes, "undrafted", changes)


CORE: Dict[str, Make] = {
    "sequence_cap": _sequence_cap, "scheduled_token_budget": _token_budget,
    "long_prefill_threshold": _prefill_threshold, "long_prefill_adaptive": _prefill_adaptive,
    "admission_watermark": _watermark, "reserve_full_prompt": _reserve, "draft_table": _draft_table,
    "no_drafts_for_tasks": _no_drafts,
}  # fmt: skip
FRONT = {"queued_requests_cap": "max_num_queued_reqs", "queued_tokens_cap": "max_num_queued_tokens"}

FRONT_TARGETS: Dict[str, Tuple[Target, ...]] = {f"control.{name}": (INPUT, ADMIT) for name in FRONT}
CORE_FACTS = tuple(f"control.{name}" for name in CORE)
# What tells of an engine at rest that it has them: fields of its SchedulerConfig, which not every version has.
CONFIG = "vllm.config.scheduler"
FIELDS = {
    "control.sequence_cap": "max_num_active_seqs",
    "control.long_prefill_adaptive": "long_prefill_token_threshold_adaptive",
    **{f"control.{name}": field for name, field in FRONT.items()},
}


class Live:
    """What one role of a process offers."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.control = process.listen()

    def blind(self, names: Any, reason: str, collect: str) -> None:
        for name in names:
            self.process.blind(f"control.{name}", reason, collect)
            if self.control is not None:
                self.control.unavailable[name] = reason

    def offer(self, control: Control, name: str, make: Callable[[], Knob]) -> None:
        try:
            control.knobs[name] = make()
            self.process.facts[f"control.{name}"] = Fact("visible")
        except NotHere as reason:
            control.unavailable[name] = str(reason)
            self.process.facts.pop(f"control.{name}", None)
        except Exception as error:
            self.blind([name], f"{type(error).__name__}: {error}", OTHER_VERSION)


class CoreLive(Live):
    """The engine core's: of the scheduler, once it is made."""

    def __init__(self, process: Process, steps: Any) -> None:
        super().__init__(process)
        self.changes = StepChanges(steps)
        facts = process.facts
        missing = [f for f in (facts["step.times"], facts["core.config"]) if f.state != "visible"]
        if process.control_fault:
            self.blind(CORE, process.control_fault, "see the reason, then start the engine again")
        elif self.control is not None and missing:
            self.blind(CORE, missing[0].reason, missing[0].collect)

    def attach(self, scheduler: Any) -> None:
        if self.control is not None and self.process.facts["step.times"].state == "visible":
            self.control.in_force = self.changes.in_force
            for name, make in CORE.items():
                self.offer(self.control, name, partial(make, scheduler, self.changes))


class FrontLive(Live):
    """The frontend's: of its configuration, which each admission looks at."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        if process.control_fault:
            self.blind(FRONT, process.control_fault, "see the reason, then start the engine again")
        elif self.control is not None:
            fault = ADMIT.fault() or Hook(INPUT, after=self._made).install()
            if fault:
                self.blind(FRONT, fault, OTHER_VERSION)
            else:
                process.facts.update({fact: Fact("visible") for fact in FRONT_TARGETS})

    def _made(self, _state: Any, _result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        config = argument(args, kwargs, 1, "vllm_config").scheduler_config
        control = self.control
        if control is not None and not control.knobs.keys() & FRONT.keys():
            for name, attribute in FRONT.items():
                self.offer(control, name, partial(Whole, config, attribute, 1, MOST_QUEUED, None, None))
