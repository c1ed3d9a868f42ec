"""Worker: wall time of each step's forward pass and sampling, and of parts of it (parts), graph mode and padding.

The step's number arrives on the plan. Sampling is a call of its own in some versions and part of `execute_model` in
others; it is hooked on the worker's class when the first plan shows which class that is. So are the parts.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Tuple

from pellucid_probe import profiler, records
from pellucid_probe.capture import Capture
from pellucid_probe.guard import COST, Hook, Target, argument, now_ns
from pellucid_probe.outbox import FULL
from pellucid_probe.process import Fact, Process
from pellucid_probe.ring import Record
from pellucid_probe.vllm import experts, parts

EXECUTE = Target("vllm.v1.worker.worker_base", "WorkerWrapperBase.execute_model", ("self", "scheduler_output"))
FORWARD = Target("vllm.forward_context", "create_forward_context", ("attn_metadata", "vllm_config"))

TARGETS: Dict[str, Tuple[Target, ...]] = {
    "worker.times": (EXECUTE,), "worker.graph_mode": (FORWARD,), "worker.captures": (EXECUTE,), **experts.TARGETS,
}  # fmt: skip
NO_SHAPE = (records.UNSEEN, records.UNSEEN)
NOTHING = (0, 0, 0)
NO_PARTS = (records.UNSEEN_NS,) * len(parts.PARTS)
# What is noted of a step: its number, start and end; start and end of its sampling; parts; rank; graph mode, padding.
Noted = Tuple[Tuple[int, int, int], int, int, Tuple[int, ...], int, Tuple[int, int]]
DEVICE_TIME = "worker.device_time"
NO_DEVICE_CLOCK = ("the worker's wall time is recorded; device events are not read",
                   "on a CPU there is none; on a GPU capture a profile")  # fmt: skip


class Worker:
    """What the hooks of one worker share. Slots, as in steps.py."""

    __slots__ = ("capture", "executed", "experts", "governor", "looked", "outbox", "parts", "process", "rank", "shape",
                 "watching")  # fmt: skip

    def __init__(self, process: Process) -> None:
        self.process = process
        self.experts = experts.Experts(process)
        self.capture = Capture(process.where, process.name, profiler.make, profiler.label)
        process.on_poll.append(self.capture.look)
        self.outbox = process.outbox
        self.governor = process.governed()
        self.executed = NOTHING         # step, start, end: waiting for its sampling
        self.watching = True            # a step has parts to time, or nobody has looked yet whether it has
        self.looked = False
        self.rank = -1
        self.parts = parts.Parts(process)
        self.shape = NO_SHAPE           # graph mode and padded tokens of the pass at hand
        process.optional_facts += ["worker.times", "worker.graph_mode", "worker.padded_tokens"]
        process.see("worker.times", [ExecuteHook(self)])
        times = process.facts["worker.times"]     # steps are counted where they are timed
        process.facts["worker.captures"] = Fact(*profiler.seen()) if times.state == "visible" else times
        process.see("worker.graph_mode", [ForwardHook(self)])
        graph = process.facts["worker.graph_mode"]
        process.facts["worker.padded_tokens"] = Fact(graph.state, graph.reason, graph.collect)
        process.blind(DEVICE_TIME, *NO_DEVICE_CLOCK)

    def begin(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """Before a forward pass, where there is more to do than to take the time."""
        if self.watching and not self.looked:
            self.looked = True
            self._hook_sampling(args[0])
            self.parts.look(getattr(args[0].worker, "model_runner", None))
            self.watching = bool(self.parts.timed)
        if self.watching:
            self.parts.begin()
        if self.experts.on or self.capture.asked is not None:
            step = getattr(argument(args, kwargs, 1, "scheduler_output"), "pellucid_step", 0)
            if self.experts.on:
                self.experts.begin(step)
            self.capture.begin(step, "execute")

    def _hook_sampling(self, wrapper: Any) -> None:
        kind = type(wrapper.worker)
        self.rank = int(getattr(wrapper.worker, "rank", -1))
        target = Target(kind.__module__, f"{kind.__qualname__}.sample_tokens", ("self",))
        if not target.fault():
            hook = SampleHook(target, self)
            if not hook.install():
                self.process.hooks["worker.times"] = [*self.process.hooks["worker.times"], hook]

    def whole(self) -> None:
        """The step at hand is over, and was one call: its sampling has no time of its own."""
        executed, self.executed = self.executed, NOTHING
        if not self.governor.level or self.governor.wants_optional():
            parts_ns = tuple(self.parts.ns) if self.watching else NO_PARTS
            self.outbox.put(self.packed, (executed, 0, 0, parts_ns, self.rank, self.shape))

    def packed(self, noted: Noted) -> Iterable[Record]:
        executed, sample_start_ns, sample_end_ns, parts_ns, rank, shape = noted
        self.governor.packed(executed[2], 0)
        return ((records.WORK, records.pack_work(
            *executed, sample_start_ns, sample_end_ns, *parts_ns, rank, *shape)),)  # fmt: skip


class ExecuteHook(Hook):
    """As flat as the engine core's: a call of ours that the engine made cold costs as much as all of this does warm."""

    __slots__ = ("worker",)

    def __init__(self, worker: Worker) -> None:
        super().__init__(EXECUTE)
        self.worker = worker

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        worker, experts, capture, cost = self.worker, self.worker.experts, self.worker.capture, COST

        def execute_model(*args: Any, **kwargs: Any) -> Any:
            if self.on:
                try:
                    worker.shape = NO_SHAPE
                    if worker.watching or experts.on or capture.asked is not None:
                        worker.begin(args, kwargs)
                except Exception as error:
                    self.fail(error)
            start_ns = now_ns()
            result = original(*args, **kwargs)
            if self.on:
                end_ns = now_ns()
                try:
                    plan = args[1] if len(args) > 1 else kwargs["scheduler_output"]
                    step = getattr(plan, "pellucid_step", 0)
                    if capture.asked is not None:
                        capture.end(step, last=result is not None)
                    if experts.on:
                        experts.end(step, start_ns, end_ns, plan, args[0].worker.model_runner)
                    if step:
                        worker.executed = (step, start_ns, end_ns)
                        if result is not None:      # sampling is not a call of its own
                            worker.whole()
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return result

        return execute_model


class ForwardHook(Hook):
    __slots__ = ("worker",)

    def __init__(self, worker: Worker) -> None:
        super().__init__(FORWARD)
        self.worker = worker

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        worker, experts, cost = self.worker, self.worker.experts, COST
        last, number = None, records.UNSEEN      # the engine's graph mode last seen, and ours of it

        def create_forward_context(*args: Any, **kwargs: Any) -> Any:
            nonlocal last, number
            context = original(*args, **kwargs)
            if self.on:
                start_ns = now_ns()
                try:
                    mode, batch = context.cudagraph_runtime_mode, context.batch_descriptor
                    if mode is not last:      # the name of an enum's member is a call, lowering it another
                        last, number = mode, records.GRAPH_MODES.index(mode.name.lower())
                    # Without device graphs nothing is padded, and there may be no descriptor.
                    worker.shape = experts.shape = (number, records.UNSEEN if batch is None else int(batch.num_tokens))
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - start_ns
            return context

        return create_forward_context


class SampleHook(Hook):
    __slots__ = ("worker",)

    def __init__(self, target: Target, worker: Worker) -> None:
        super().__init__(target)
        self.worker = worker

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        worker, capture, cost = self.worker, self.worker.capture, COST
        governor, outbox, waiting, append = worker.governor, worker.outbox, worker.outbox.waiting, worker.outbox.append
        pack = worker.packed

        def sample_tokens(*args: Any, **kwargs: Any) -> Any:
            if self.on and capture.asked is not None and worker.executed[0]:
                try:
                    capture.begin(worker.executed[0], "sample")
                except Exception as error:
                    self.fail(error)
            start_ns = now_ns()
            result = original(*args, **kwargs)
            if self.on:
                end_ns = now_ns()
                try:
                    step = worker.executed[0]
                    if step:
                        if capture.asked is not None:
                            capture.end(step, last=True)
                        executed, worker.executed = worker.executed, NOTHING
                        if not governor.level or governor.wants_optional():
                            parts_ns = tuple(worker.parts.ns) if worker.watching else NO_PARTS
                            append((pack, (executed, start_ns, end_ns, parts_ns, worker.rank, worker.shape)))
                            if len(waiting) > FULL:
                                outbox.flush()
                except Exception as error:
                    self.fail(error)
                cost.ns += now_ns() - end_ns
            return result

        return sample_tokens
