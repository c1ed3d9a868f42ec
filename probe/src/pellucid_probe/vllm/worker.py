"""Worker: wall time of each step's forward pass and sampling, and of parts of it (parts.py), graph mode and padding.

The step's number arrives on the plan. Sampling is a call of its own in some versions and part of `execute_model` in
others; it is hooked on the worker's class when the first plan shows which class that is. So are the parts.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from pellucid_probe import profiler, records
from pellucid_probe.capture import Capture
from pellucid_probe.guard import Hook, StepHook, Target, argument
from pellucid_probe.outbox import one
from pellucid_probe.process import Fact, Process
from pellucid_probe.vllm import experts, parts

EXECUTE = Target("vllm.v1.worker.worker_base", "WorkerWrapperBase.execute_model", ("self", "scheduler_output"))
FORWARD = Target("vllm.forward_context", "create_forward_context", ("attn_metadata", "vllm_config"))

TARGETS: Dict[str, Tuple[Target, ...]] = {
    "worker.times": (EXECUTE,), "worker.graph_mode": (FORWARD,), "worker.captures": (EXECUTE,), **experts.TARGETS,
}  # fmt: skip
_WORK = one(records.WORK, lambda fields: records.pack_work(*fields))
NO_DEVICE_CLOCK = "the worker's wall time is recorded; device events are not read"


class Worker:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.experts = experts.Experts(process)
        self.capture = Capture(process.where, process.name, profiler.make, profiler.label)
        process.on_poll.append(self.capture.look)
        self._put, self.governor = process.outbox.put, process.governed()
        self._execute: Optional[Tuple[int, int, int]] = None    # step, start, end: waiting for its sampling
        self._looked = False
        self._rank = -1
        self.parts = parts.Parts(process)
        self._timed, self._parts_ns = self.parts.timed, self.parts.ns
        self._graph_mode = self._padded_tokens = records.UNSEEN
        self._named: Tuple[Any, int] = (None, records.UNSEEN)      # the engine's graph mode last seen, and ours of it
        process.optional_facts += ["worker.times", "worker.graph_mode", "worker.padded_tokens"]
        process.see("worker.times", [StepHook(EXECUTE, self._executed, before=self._executing)])
        times = process.facts["worker.times"]     # steps are counted where they are timed
        process.facts["worker.captures"] = Fact(*profiler.seen()) if times.state == "visible" else times
        process.see("worker.graph_mode", [Hook(FORWARD, after=self._forward)])
        graph = process.facts["worker.graph_mode"]
        process.facts["worker.padded_tokens"] = Fact(graph.state, graph.reason, graph.collect)
        process.blind("worker.device_time", NO_DEVICE_CLOCK, "on a CPU there is none; on a GPU capture a profile")

    def _executing(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        if not self._looked:
            self._looked = True
            self._hook_sampling(args[0])
            self.parts.look(getattr(args[0].worker, "model_runner", None))
        self._graph_mode = self._padded_tokens = records.UNSEEN
        if self._timed:
            self.parts.begin()
        if self.experts.on or self.capture.asked is not None:
            step = getattr(argument(args, kwargs, 1, "scheduler_output"), "pellucid_step", 0)
            if self.experts.on:
                self.experts.begin(step)
            self.capture.begin(step, "execute")

    def _hook_sampling(self, wrapper: Any) -> None:
        kind = type(wrapper.worker)
        self._rank = int(getattr(wrapper.worker, "rank", -1))
        target = Target(kind.__module__, f"{kind.__qualname__}.sample_tokens", ("self",))
        if not target.fault():
            hook = StepHook(target, self._sampled, before=self._sampling)
            if not hook.install():
                self.process.hooks["worker.times"] = [*self.process.hooks["worker.times"], hook]

    def _executed(
        self, start_ns: int, end_ns: int, result: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> None:
        plan = args[1] if len(args) > 1 else kwargs["scheduler_output"]
        step = getattr(plan, "pellucid_step", 0)
        if self.capture.asked is not None:
            self.capture.end(step, last=result is not None)
        if self.experts.on:
            self.experts.end(step, start_ns, end_ns, plan, args[0].worker.model_runner)
        if not step:
            return
        if result is None:
            self._execute = (step, start_ns, end_ns)
        else:
            self._write(step, start_ns, end_ns, 0, 0)

    def _sampling(self, _args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> None:
        if self.capture.asked is not None and self._execute is not None:
            self.capture.begin(self._execute[0], "sample")

    def _sampled(
        self, start_ns: int, end_ns: int, _result: Any, _args: Tuple[Any, ...], _kwargs: Dict[str, Any]
    ) -> None:
        if self._execute is not None:
            step, execute_start, execute_end = self._execute
            self._execute = None
            if self.capture.asked is not None:
                self.capture.end(step, last=True)
            self._write(step, execute_start, execute_end, start_ns, end_ns)

    def _write(self, step: int, start_ns: int, end_ns: int, sample_start_ns: int, sample_end_ns: int) -> None:
        if self.governor.wants_optional(end_ns, 0):
            self._put(_WORK, (step, start_ns, end_ns, sample_start_ns, sample_end_ns, *self._parts_ns, self._rank,
                              self._graph_mode, self._padded_tokens))  # fmt: skip

    def _forward(self, _state: Any, context: Any, _args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> None:
        mode = context.cudagraph_runtime_mode
        if mode is not self._named[0]:      # the name of an enum's member is a call, lowering it another
            self._named = (mode, records.GRAPH_MODES.index(mode.name.lower()))
        self._graph_mode = self._named[1]
        batch = context.batch_descriptor     # without device graphs nothing is padded, and there may be none
        self._padded_tokens = int(batch.num_tokens) if batch is not None else records.UNSEEN
        self.experts.shape(self._graph_mode, self._padded_tokens)
