"""Parts of a step that are timed by themselves, in the worker, where the engine has them.

    draft     proposing drafts            the model runner itself, or the speculator of the newer runner
    encoder   encoding images and sounds  the model runner, or its state's encoder runner
    lora      the batch's adapters        saying which token takes which adapter, and putting the adapters in place

A part is one method or several of TARGETS, hooked on the classes that the first plan shows. Their time within a step
is summed. Of what the engine does not have nothing is said; what it has under other names is blind. What a drafter
holds is in `memory`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from pellucid_probe import records
from pellucid_probe.guard import Hook, StepAfter, StepHook, Target
from pellucid_probe.process import Process
from pellucid_probe.vllm.parts import memory

DRAFT_TIME, ENCODER_TIME, LORA_TIME = "worker.draft_time", "worker.encoder_time", "worker.lora_time"

_RUNNER = "vllm.v1.worker.gpu_model_runner"
DRAFT = Target(_RUNNER, "GPUModelRunner.propose_draft_token_ids", ("self",))
ENCODE = Target(_RUNNER, "GPUModelRunner._execute_mm_encoder", ("self",))
LORA = Target("vllm.v1.worker.gpu_input_batch", "InputBatch.make_lora_inputs", ("self",))
NEWER_DRAFT = Target("vllm.v1.worker.gpu.spec_decode.speculator", "BaseSpeculator.propose", ("self",))
NEWER_ENCODE = Target("vllm.v1.worker.gpu.mm.encoder_runner", "EncoderRunner.execute_mm_encoder", ("self",))
NEWER_LORA = Target("vllm.v1.worker.gpu.lora_utils", "LoraState.make_lora_inputs", ("self",))
ADAPTERS = Target("vllm.lora.worker_manager", "WorkerLoRAManager.set_active_adapters", ("self",))

# An engine version has both kinds of runner; which of them works, its configuration and device say.
TARGETS: Dict[str, Tuple[Target, ...]] = {
    DRAFT_TIME: (DRAFT, NEWER_DRAFT), ENCODER_TIME: (ENCODE, NEWER_ENCODE), LORA_TIME: (LORA, NEWER_LORA, ADAPTERS),
}  # fmt: skip

Calls = List[Tuple[Any, Target]]    # whose class has the method, and the method as its nearest known class has it


class Part(NamedTuple):
    fact: str
    there: Callable[[Any], bool]        # whether the engine of this model runner has it
    calls: Callable[[Any], Calls]
    if_any: bool = False                # only calls that returned something count


def _encodes(runner: Any) -> bool:
    """Pipeline ranks behind the first have no encoder; the newer runner gives them no cache for its results."""
    return bool(getattr(runner, "supports_mm_inputs", False)) and getattr(runner, "encoder_cache", True) is not None


def _draft(runner: Any) -> Calls:
    speculator = getattr(runner, "speculator", None)
    if speculator is None:
        return [(runner, DRAFT)]
    return [(speculator, NEWER_DRAFT)]


def _encoder(runner: Any) -> Calls:
    state = getattr(runner, "model_state", None)
    if state is None:
        return [(runner, ENCODE)]
    return [(state.encoder_runner, NEWER_ENCODE)]


def _lora(runner: Any) -> Calls:
    newer = getattr(runner, "lora_state", None)
    batch = (newer, NEWER_LORA) if newer else (runner.input_batch, LORA)
    return [batch, (runner.lora_manager, ADAPTERS)]


# In the order of a Work's fields.
PARTS = (
    Part(DRAFT_TIME, lambda runner: getattr(runner, "speculative_config", None) is not None, _draft),
    # The older runner calls its encoder in every step, also with nothing to encode.
    Part(ENCODER_TIME, _encodes, _encoder, if_any=True),
    Part(LORA_TIME, lambda runner: bool(getattr(runner, "lora_config", None)), _lora),
)


class Parts:
    """`ns` has each part's time in the step at hand, UNSEEN_NS where it is not seen."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.ns = [records.UNSEEN_NS] * len(PARTS)
        self.timed: List[Tuple[int, Hook]] = []         # place in `ns`, one of its hooks; empty in most engines
        self._fresh = list(self.ns)                     # `ns` when a step begins and all hooks are on
        for part in PARTS:
            process.hooks[part.fact] = []               # filled while another thread may be looking

    def look(self, runner: Any) -> None:
        """Once, at the first plan: which parts this engine has."""
        for place, part in enumerate(PARTS):
            if part.there(runner):
                self._hook(place, part, runner)
        if PARTS[0].there(runner):
            memory.note(self.process, runner)

    def begin(self) -> None:
        """A step begins. Only called where something is timed."""
        ns = self.ns
        ns[:] = self._fresh
        for place, hook in self.timed:
            if not hook.on:
                ns[place] = records.UNSEEN_NS

    def _hook(self, place: int, part: Part, runner: Any) -> None:
        try:
            targets = [_target(*call) for call in part.calls(runner)]
        except AttributeError as error:
            self.process.blind(part.fact, str(error), "use an engine version of the tested table, or report this one")
            return
        hooks: List[Hook] = [StepHook(target, self._adds(place, part.if_any)) for target in targets]
        if self.process.see(part.fact, hooks):
            self.process.optional_facts.append(part.fact)
            self._fresh[place] = 0
            self.timed += [(place, hook) for hook in hooks]

    def _adds(self, place: int, if_any: bool) -> StepAfter:
        ns = self.ns

        def add(start_ns: int, end_ns: int, result: Any, _args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> None:
            if ns[place] != records.UNSEEN_NS and (not if_any or len(result)):
                ns[place] += end_ns - start_ns

        return add


def _target(owner: Any, known: Target) -> Target:
    """The same method where this object's own class has it: devices and kinds of drafts have classes of their own."""
    kind = type(owner)
    return Target(kind.__module__, f"{kind.__qualname__}.{known.name.rpartition('.')[2]}", known.parameters)
