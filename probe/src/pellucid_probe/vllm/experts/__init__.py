"""Experts: which of them the tokens of sampled steps chose, by layer and task.

    router ── capture(ids) ──▶ kept until the step ends ──▶ added up on the device: task × layer × expert
                                                             a window's sums go out; our thread copies and packs them

A step is sampled when its number is a multiple of the stride, so the ranks of an engine sample the same ones. In other
steps the router calls a function that returns at once. Of a sampled step only the ids are kept, no work is added to the
forward pass; they are counted after it, all layers together. No step waits for the device. The stride follows from what
a sample costs: at most SHARE of the time in steps.

While a device graph is captured the ids of each layer are kept for good, so the graph's memory pool leaves them alone,
and after each replay they hold what that replay chose. Tried on an H200 (torch 2.11, 8 layers, 4 graph sizes in one
pool): 640 of 640 layers right after replays, 468 us a replay with the ids kept and 469 us without.
"""

from __future__ import annotations

import importlib
import multiprocessing.util
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

from pellucid_probe import records
from pellucid_probe.guard import COST, Hook, Target, now_ns
from pellucid_probe.process import Fact, Process
from pellucid_probe.vllm.experts.routers import Layer, layers
from pellucid_probe.vllm.labels import task_of

# Called after the weights are loaded and before device graphs are captured.
LOADED = Target("vllm.v1.worker.worker_base", "WorkerWrapperBase.initialize_from_config", ("self", "kv_cache_configs"))
EXPERTS, BY_TASK, RANKS = "worker.experts", "worker.experts_by_task", "worker.expert_ranks"
TARGETS: Dict[str, Tuple[Target, ...]] = {EXPERTS: (LOADED,), BY_TASK: (LOADED,), RANKS: (LOADED,)}

STRIDES = (7, 13, 29, 61, 127, 251, 509, 1021)    # primes: they do not beat with what repeats in a schedule
FIRST_STRIDE = 61
SHARE = 0.005                   # of the time in steps that counting may take
LOOK_EVERY = 8                  # samples between choices of a stride
WINDOW_NS = 10_000_000_000
SHORT_NS = 300_000_000_000      # a worker's windows are short at first, so that a short recording has several …
LONGER = 6                      # … and then longer, so that a day of them can be read
IDLE_WINDOW_NS = 1_000_000_000  # a window this old goes out when the engine falls idle
COUNTS = 4000                   # layers times experts; twice as many make the window twice as long
LABELS = 16                     # tasks told apart; 0 is everything else
OTHER_WAY = "run the engine with --enforce-eager, or with another router or kernel"

Capture = Any


class Sample:
    """A window's sums. `counts` lies on the device: label, layer, expert, and one more expert for ids out of range."""

    def __init__(self, counts: Any, start_ns: int, time_ns: int, step: int) -> None:
        self.counts, self.start_ns, self.first_ns = counts, start_ns, time_ns
        self.first_step = self.last_step = step
        self.end_ns = time_ns
        self.steps = 0
        self.tokens = [0] * LABELS
        self.ready: Any = None          # an event of the device, where there is one


class Experts:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.on = False
        self.taking = False             # the step at hand is sampled
        self._torch: Any = None
        self._layers: List[Layer] = []
        self._held: List[Any] = []      # ids of the step at hand, by layer
        self._graphs: Dict[Tuple[int, int], List[Any]] = {}     # graph mode, padded tokens → ids by layer
        self.shape: Tuple[int, int] = (0, 0)       # graph mode and padded tokens of the forward pass that began last:
                                                   # perhaps one that captures a graph
        self._own_rows = True             # what is routed here is this batch, in its order
        self._label_of: Dict[str, int] = {}                     # request → label
        self._labels: List[Optional[str]] = [None]
        self._sample: Optional[Sample] = None
        self._window_ns = WINDOW_NS
        self._first_ns = 0              # the first sample
        self._fixed = _stride_asked()
        self._stride = self._fixed or FIRST_STRIDE
        self._cost_ns = self._steps_ns = self._samples = 0      # since the last choice of a stride
        self.hook = Hook(LOADED, after=self._loaded)
        self.hook.on_silence = self._stop
        if self._fixed == 0:
            process.blind(EXPERTS, "switched off by PELLUCID_EXPERTS_EVERY=0", "start the engine without it")
        elif process.see(EXPERTS, [self.hook]):
            multiprocessing.util.Finalize(None, self.close, exitpriority=1)    # before the outbox's last flush
        seen = process.facts[EXPERTS]
        for fact in (BY_TASK, RANKS):
            process.facts[fact] = Fact(seen.state, seen.reason, seen.collect)

    # ---- once, when the model is there

    def _loaded(self, _state: Any, _result: Any, args: Tuple[Any, ...], _kwargs: Dict[str, Any]) -> None:
        wrapper = args[0]
        worker, config = wrapper.worker, wrapper.vllm_config
        modules = worker.model_runner.get_model().modules()
        self._torch = importlib.import_module("torch")
        self._layers, faults = layers(modules, config)
        fault = faults[0] if faults else _compiled(config)
        if fault:
            self._blind(fault)
        elif self._layers:
            self._watch(worker, config)
        self.process.describe()

    def _blind(self, reason: str, collect: str = OTHER_WAY) -> None:
        for fact in TARGETS:
            self.process.blind(fact, reason, collect)

    def _stop(self) -> None:
        self.on = self.taking = False
        for fact in (BY_TASK, RANKS):
            self.process.blind(fact, f"{EXPERTS} stopped", "report it; the engine is not affected")

    def _watch(self, worker: Any, config: Any) -> None:
        parallel = config.parallel_config
        placed = self._layers[0].placed
        if worker.rank % parallel.tensor_parallel_size and not placed.sequence_parallel:
            self._blind("the first rank of its tensor-parallel group reports the same tokens", "nothing to turn on")
            return
        if parallel.data_parallel_size > 1:
            self._own_rows = False
            self.process.blind(BY_TASK, "tokens of other data-parallel ranks may be among those routed here",
                               "record an engine with one data-parallel rank")  # fmt: skip
        if placed.fault:
            self.process.blind(RANKS, placed.fault, "record without --enable-eplb")
        self._window_ns = WINDOW_NS * -(-sum(layer.experts for layer in self._layers) // COUNTS)
        self._held = [None] * len(self._layers)
        self.taking = True      # graphs are captured next
        for place, layer in enumerate(self._layers):
            layer.router.set_capture_fn(self._capture(place, getattr(layer.router, "capture_fn", None)))
        self.on = True

    def _capture(self, place: int, earlier: Capture) -> Capture:
        held, graphs, capturing = self._held, self._graphs, self._torch.cuda.is_current_stream_capturing

        def capture(ids: Any) -> None:
            if earlier is not None:
                earlier(ids)
            if self.taking:
                start = now_ns()
                try:
                    if ids.is_cuda and capturing():
                        graphs.setdefault(self.shape, [None] * len(held))[place] = ids
                    else:
                        held[place] = ids
                except Exception as error:
                    self.hook.fail(error)
                spent_ns = now_ns() - start
                COST.ns += spent_ns
                self._cost_ns += spent_ns

        return capture

    # ---- every step

    def begin(self, step: int) -> None:
        """Only called while `on`. `step` is 0 for a pass without a number."""
        level = self.process.shed_level
        if level > 1:
            self.on = False
            self.close()
            self._blind("shed: the probe's cost was above its budget", "give the engine's host a free core")
        stride = self._stride if not level or self._fixed else STRIDES[-1]
        self.taking = self.on and step > 0 and step % stride == 0

    def end(self, step: int, start_ns: int, end_ns: int, plan: Any, runner: Any) -> None:
        """After the forward pass, within a hook that clocks it."""
        try:
            self._note_labels(plan)
            if not plan.total_num_scheduled_tokens:     # the engine falls idle
                if self._sample is not None and end_ns - self._sample.first_ns >= IDLE_WINDOW_NS:
                    self._go()
            elif self.taking:
                self.taking = False
                self._count(step, start_ns, plan, runner)
                self._choose_stride(now_ns() - end_ns, end_ns - start_ns)
        except Exception as error:
            self.hook.fail(error)

    def _note_labels(self, plan: Any) -> None:
        if not self._own_rows:
            return
        for new in plan.scheduled_new_reqs:
            task = task_of(getattr(new.sampling_params, "extra_args", None))
            if task is None:
                continue
            if task not in self._labels and len(self._labels) < LABELS:
                self._labels.append(task)
            if task in self._labels:
                self._label_of[new.req_id] = self._labels.index(task)
        if self._label_of:
            for name in plan.finished_req_ids:
                self._label_of.pop(name, None)

    def _choose_stride(self, spent_ns: int, step_ns: int) -> None:
        self._cost_ns += spent_ns
        self._steps_ns += step_ns
        self._samples += 1
        if self._samples == LOOK_EVERY:
            needed = self._cost_ns / max(1, self._steps_ns) / SHARE
            if not self._fixed:
                self._stride = next((s for s in STRIDES if s >= needed), STRIDES[-1])
            self._cost_ns = self._steps_ns = self._samples = 0

    def _count(self, step: int, time_ns: int, plan: Any, runner: Any) -> None:
        mode, _ = self.shape
        held = self._held if not mode or mode == records.UNSEEN else self._graphs.get(self.shape, ())
        ids, tokens = list(held), plan.total_num_scheduled_tokens
        self._held[:] = [None] * len(self._held)
        if not ids or any(layer is None for layer in ids):
            return          # a shape that was captured before we came, or a pass that skipped a layer
        rows = ids[0].shape[0]
        if self._own_rows:
            if rows < tokens:
                return      # a pass in several parts: only the last was kept
            rows = tokens   # what is behind them is padding
        sample = self._open(step, time_ns, ids[0].device)
        self._add(sample, ids, rows, self._rows_by_label(plan, runner, rows))
        sample.steps += 1
        sample.last_step, sample.end_ns = step, time_ns

    def _rows_by_label(self, plan: Any, runner: Any, rows: int) -> List[Tuple[int, int]]:
        """(label, rows) in the order of the batch. Raises when the batch is not what was scheduled."""
        if not self._own_rows or not self._label_of:
            return [(0, rows)]
        batch = getattr(runner, "input_batch", None)
        if batch is None:
            batch = runner.execute_model_state.input_batch
        shares = plan.num_scheduled_tokens
        found: List[Tuple[int, int]] = []
        for name in batch.req_ids:
            found.append((self._label_of.get(name, 0), shares[name]))
        if sum(n for _, n in found) != rows:
            raise ValueError(f"{sum(n for _, n in found)} tokens in the batch, {rows} scheduled")
        return found

    def _add(self, sample: Sample, ids: List[Any], rows: int, by_label: List[Tuple[int, int]]) -> None:
        torch, counts = self._torch, sample.counts
        _, layers, width = counts.shape
        flat = torch.stack([layer[:rows] for layer in ids]).long()                # layer, row, choice
        flat = torch.where((flat < 0) | (flat >= width - 1), width - 1, flat)
        flat += (torch.arange(layers, device=flat.device) * width)[:, None, None]
        labels = {label for label, _ in by_label}
        if labels != {0}:
            of_row = torch.tensor([label for label, n in by_label for _ in range(n)]).to(flat.device, non_blocking=True)
            flat += (of_row * (layers * width))[None, :, None]
        flat = flat.flatten()
        counts.view(-1).scatter_add_(0, flat, torch.ones_like(flat))
        for label, n in by_label:
            sample.tokens[label] += n

    # ---- windows

    def _open(self, step: int, time_ns: int, device: Any) -> Sample:
        sample = self._sample
        self._first_ns = self._first_ns or time_ns
        start_ns = window_start(time_ns, self._first_ns, self._window_ns)
        if sample is not None and start_ns != sample.start_ns:
            self._go()
            sample = None
        if sample is None:
            width = max(layer.experts for layer in self._layers) + 1
            counts = self._torch.zeros((LABELS, len(self._layers), width), dtype=self._torch.int64, device=device)
            sample = self._sample = Sample(counts, start_ns, time_ns, step)
        return sample

    def _go(self) -> None:
        sample, self._sample = self._sample, None
        if sample is None or not sample.steps:
            return
        if sample.counts.is_cuda:
            sample.ready = self._torch.cuda.Event()
            sample.ready.record()
        self.process.outbox.put(self._packed, sample)

    def _packed(self, sample: Sample) -> Iterable[Tuple[int, bytes]]:
        """On our thread, which may wait for the device."""
        if sample.ready is not None:
            sample.ready.synchronize()
        counts = sample.counts.cpu().tolist()
        for label, tokens in enumerate(sample.tokens):
            for place, layer in enumerate(self._layers):
                if tokens:
                    yield records.EXPERTS, records.pack_json({
                        "s": sample.start_ns, "e": sample.end_ns, "a": sample.first_step, "b": sample.last_step,
                        "n": sample.steps, "t": tokens, "k": layer.top_k, "l": layer.number,
                        "x": self._labels[label], "c": counts[label][place][: layer.experts],
                        "p": layer.placed.ranks, "r": layer.placed.spread,
                    })  # fmt: skip

    def close(self) -> None:
        """What was counted goes out: the process ends, or counting does."""
        try:
            self._go()
        except Exception as error:
            self.hook.fail(error)


def window_start(time_ns: int, first_ns: int, window_ns: int) -> int:
    """Begin of the window that a moment is in: a multiple of its length, so ranks have the same ones."""
    longer_ns = LONGER * window_ns
    change_ns = -(-(first_ns + SHORT_NS) // longer_ns) * longer_ns
    return time_ns - time_ns % (window_ns if time_ns < change_ns else longer_ns)


def _compiled(config: Any) -> str:
    """Why the hook would not be called, or "": on a CPU the whole forward pass is traced once, before we come."""
    mode = getattr(getattr(config.compilation_config, "mode", None), "name", "NONE")
    on_cpu = str(config.device_config.device_type) == "cpu"
    return "the forward pass is compiled as a whole" if on_cpu and mode != "NONE" else ""


def _stride_asked() -> Optional[int]:
    """PELLUCID_EXPERTS_EVERY: a fixed stride, 0 for off; None for one that follows the cost."""
    asked = os.environ.get("PELLUCID_EXPERTS_EVERY", "")
    return int(asked) if asked.isdigit() else None
