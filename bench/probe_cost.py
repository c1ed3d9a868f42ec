"""What the probe costs per step, driven by the engine's real scheduler, without a model or a device.

    .venv-engine/bin/python bench/probe_cost.py MODEL_DIR [RUNNING]

Every forward pass is replaced by "each request that has its prompt computed gets one token", so the scheduler's own
work and our hooks are all there is. The worker's and the frontend's hooks are called in the same loop, through the
engine's own classes: called in a loop of their own they find the caches warm, which they do not in an engine.

    |schedule| execute, sample |update| process outputs|      by our own clocks, each part by itself
    on on off off on on off off …                             in blocks, for the difference with and without

Fails if anything was dropped, sampled or shed, or if what runs in the step's path exceeds the budget of DESIGN §4
(docs/decisions/0011). KV block lives are measured over whole lives of requests, in runs of their own.
"""

from __future__ import annotations

import gc
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

BLOCK_TOKENS, BLOCKS, PROMPT_TOKENS, OUTPUT_TOKENS = 16, 40_000, 500, 400
BLOCK_STEPS = 2 * BLOCK_TOKENS      # of one stretch: every running request takes as many new KV blocks in each
SETTLE_STEPS = 8      # after hooks were put in place or taken away the interpreter learns the classes anew
ROUNDS = 4            # of 256 requests, from arrival to end
ORDER = (True, False, False, True)      # on and off, so that a drift falls on both
MEAN_BUDGET_US, P99_BUDGET_US, LIFE_BUDGET_US = 10.0, 40.0, 26.0
PARTS = ("engine core", "worker", "frontend")


@dataclass
class Measured:
    on_us: list[float] = field(default_factory=list)       # schedule + update, hooks on: the median of each stretch
    off_us: list[float] = field(default_factory=list)      # the same, hooks off
    steps: list[tuple[float, float, float]] = field(default_factory=list)     # hooks by our own clocks, by PARTS
    noted: int = 0                                         # steps with hooks on, those left to settle too
    hooks_us: float = 0.0                                  # engine core, all of these
    packing_us: float = 0.0                                # on our thread, all of these
    fill_us: float = 0.0                                   # arrivals of all requests: hooks and packing


class Worker:
    """Does what the engine's worker does around a forward pass, without the pass."""

    rank = 0

    def __init__(self, config: Any) -> None:
        self.config = config

    def execute_model(self, _plan: Any) -> None:
        from vllm import forward_context

        forward_context.create_forward_context(None, self.config)

    def sample_tokens(self, _grammar: Any) -> None:
        return


@dataclass
class Engine:
    scheduler: Any
    worker: Any          # the engine's wrapper around a Worker
    processor: Any       # the frontend's


def scheduler(model: str, running: int) -> Any:
    import torch
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    config = EngineArgs(model=model, max_model_len=8192, max_num_seqs=running, max_num_batched_tokens=8192,
                        enforce_eager=True, load_format="dummy").create_engine_config()  # fmt: skip
    config.cache_config.num_gpu_blocks, config.cache_config.block_size = BLOCKS, BLOCK_TOKENS
    spec = FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=2, head_size=64, dtype=torch.bfloat16)
    kv = KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer.0"], spec)])
    return Scheduler(vllm_config=config, kv_cache_config=kv, block_size=BLOCK_TOKENS, log_stats=True,
                     structured_output_manager=StructuredOutputManager(config))  # fmt: skip


def fill(engine: Any, running: int) -> None:
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    hash_fn = get_hash_fn_by_name(engine.cache_config.prefix_caching_hash_algo)
    init_none_hash(hash_fn)
    hasher = get_request_block_hasher(BLOCK_TOKENS, hash_fn)
    pick = random.Random(0)
    for i in range(running):
        prompt = [pick.randrange(3, 4000) for _ in range(PROMPT_TOKENS)]
        # Lengths differ, so that requests end, and the batch changes, at different steps.
        params = SamplingParams(max_tokens=OUTPUT_TOKENS + i % 64, ignore_eos=True)
        request = Request(f"req-{i}-0badcafe", prompt, params, None, arrival_time=time.time(), block_hasher=hasher)
        engine.add_request(request)


def around(config: Any) -> tuple[Any, Any]:
    """The engine's worker wrapper, around a Worker, and its output processor."""
    from vllm.v1.engine.output_processor import OutputProcessor
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    wrapper = WorkerWrapperBase.__new__(WorkerWrapperBase)
    wrapper.worker, wrapper.mm_receiver_cache = Worker(config), None
    wrapper.execute_model(type("Plan", (), {"pellucid_step": 0, "scheduled_new_reqs": ()})())     # hooks the sampling
    processor = OutputProcessor(None, log_stats=True)
    processor.request_states["waits"] = None      # as while somebody is served: with nobody left, the outbox is flushed
    return wrapper, processor


def drive(engine: Engine, hooks: list[Any], order: tuple[bool, ...]) -> Measured:
    """Runs to the end. A step counts for `on` or `off` by its stretch, unless it is one of the first there."""
    measured, number = Measured(), 0
    stretch: list[float] = []
    while engine.scheduler.has_unfinished_requests():
        on, place = order[number // BLOCK_STEPS % len(order)], number % BLOCK_STEPS
        if place == 0:
            if stretch:
                (measured.on_us if order[(number // BLOCK_STEPS - 1) % len(order)] else measured.off_us).append(
                    statistics.median(stretch))  # fmt: skip
            stretch = []
            _switch(hooks, on)
        took_us, cost = step(engine)
        if not cost:
            continue
        number += 1
        if on:
            measured.noted += 1
            measured.hooks_us += cost[0]
        if place >= SETTLE_STEPS or len(set(order)) == 1:
            stretch.append(took_us)
            if on:
                measured.steps.append(cost)
    return measured


def step(engine: Engine) -> tuple[float, tuple[float, float, float] | tuple[()]]:
    """Time in schedule and update, and what the hooks took by PARTS: nothing when nothing was planned."""
    from pellucid_probe.guard import COST
    from vllm.v1.engine import EngineCoreOutput
    from vllm.v1.outputs import ModelRunnerOutput

    core, c0, t0 = engine.scheduler, COST.ns, time.perf_counter_ns()
    plan = core.schedule()
    t1, c1 = time.perf_counter_ns(), COST.ns
    if plan.total_num_scheduled_tokens:
        engine.worker.execute_model(plan)
        engine.worker.worker.sample_tokens(None)
    c2 = COST.ns
    ids = list(plan.num_scheduled_tokens)
    done = [core.requests[r].num_computed_tokens >= core.requests[r].num_prompt_tokens for r in ids]
    output = ModelRunnerOutput(req_ids=ids, req_id_to_index={r: i for i, r in enumerate(ids)},
                               sampled_token_ids=[[5] if d else [] for d in done], pooler_output=[])  # fmt: skip
    c3, t2 = COST.ns, time.perf_counter_ns()
    core.update_from_output(plan, output)
    t3, c4 = time.perf_counter_ns(), COST.ns
    outputs = [EngineCoreOutput(request_id=r, new_token_ids=[5]) for r in ids]
    c5 = COST.ns
    engine.processor.process_outputs(outputs, time.monotonic(), None)
    c6 = COST.ns
    if not plan.total_num_scheduled_tokens:
        return 0.0, ()
    return (t1 - t0 + t3 - t2) / 1e3, ((c1 - c0 + c4 - c3) / 1e3, (c2 - c1) / 1e3, (c6 - c5) / 1e3)


def _switch(hooks: list[Any], on: bool) -> None:
    """Only where it is not so already: storing a class's attribute makes the interpreter forget what it knows of it."""
    for hook in hooks:
        owner, attribute = hook.target.resolve()
        state = vars(hook.target)
        wrapped = state.setdefault("wrapped", getattr(owner, attribute))
        if state.get("in_place", True) != on:
            state["in_place"] = on
            setattr(owner, attribute, wrapped if on else wrapped.__wrapped__)


def main(model: str, running: int = 256) -> int:
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as folder:
        os.environ["PELLUCID_DIR"] = folder
        return measure(model, running)


def one_run(model: str, running: int, order: tuple[bool, ...], lives: bool = False) -> Measured:
    """A scheduler of its own, filled and driven to the end, with KV block lives or without."""
    from pellucid_probe.guard import COST
    from pellucid_probe.vllm import arm

    os.environ["PELLUCID_KV_LIVES"] = str(int(lives))
    process = arm._process
    assert process is not None
    arm._armed["engine_core"].kv.lives = arm._armed["engine_core"].packer.lives = None
    core = scheduler(model, running)
    engine = Engine(core, *around(core.vllm_config))
    facts = ("step", "kv", "request.freed", "worker", "request.delivered")
    hooks = list(dict.fromkeys(h for fact, hs in process.hooks.items() if fact.startswith(facts) for h in hs))
    _switch(hooks, True)
    before_ns = COST.ns + process.outbox.cost_ns
    fill(core, running)
    process.outbox.flush()
    fill_ns, packed_ns = COST.ns + process.outbox.cost_ns - before_ns, process.outbox.cost_ns
    gc.collect()
    gc.freeze()      # as the engine does before it serves
    measured = drive(engine, hooks, order)
    gc.unfreeze()
    process.outbox.flush()
    _switch(hooks, True)
    measured.fill_us, measured.packing_us = fill_ns / 1e3, (process.outbox.cost_ns - packed_ns) / 1e3
    return measured


def life_us(model: str, running: int) -> tuple[float, float]:
    """What KV block lives add for one request, from arrival to end, packing included; and hooks a step with them."""
    runs = {lives: [one_run(model, running, (True,), lives) for _ in range(2)] for lives in (False, True)}
    spent = {lives: min(m.fill_us + m.hooks_us + m.packing_us for m in ms) for lives, ms in runs.items()}
    return (spent[True] - spent[False]) / running, min(m.hooks_us / m.noted for m in runs[True])


def told(name: str, values: list[float]) -> str:
    ordered = sorted(values)
    return (f"{name:<34} {statistics.mean(values):8.1f} us mean   {statistics.median(values):.1f} p50   "
            f"{ordered[int(len(ordered) * 0.99)]:.1f} p99")  # fmt: skip


def measure(model: str, running: int) -> int:
    from pellucid_probe.vllm import arm

    for role in ("engine_core", "frontend", "worker"):
        arm.arm(role)
    process = arm._process
    assert process is not None
    rounds = [one_run(model, running, ORDER if n % 2 else ORDER[2:] + ORDER[:2]) for n in range(ROUNDS)]
    steps = [s for r in rounds for s in r.steps]
    on, off = ([us for r in rounds for us in getattr(r, name)] for name in ("on_us", "off_us"))
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, engine "
          f"{process.engine_version}, {running} running, {PROMPT_TOKENS}-token prompts, block {BLOCK_TOKENS}, "
          f"{len(steps)} steps, {len(on)} stretches on and {len(off)} off, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"engine's own schedule + update     {statistics.median(off):8.0f} us a step (median)")
    for place, name in enumerate(PARTS):
        print(told(f"{name}, hooks", [s[place] for s in steps]))
    total = [sum(s) for s in steps]
    mean, p99 = statistics.mean(total), sorted(total)[int(len(total) * 0.99)]
    print(told("in the step's path, all processes", total), f"(budget {MEAN_BUDGET_US} mean, {P99_BUDGET_US} p99)")
    pairs = sorted(a - b for a, b in zip(on, off, strict=False))
    low, high = pairs[len(pairs) // 4], pairs[len(pairs) * 3 // 4]
    print(f"schedule + update, on minus off    {statistics.median(pairs):8.1f} us, quartiles {low:.1f} and {high:.1f} "
          "(medians of stretches; the hooks that read no clock are in it)")
    packing = sum(r.packing_us for r in rounds) / sum(r.noted for r in rounds)
    print(f"packing on our threads             {packing:8.1f} us mean; with it {mean + packing:.1f}")
    life, with_lives = life_us(model, running)
    print(f"KV block lives, more               {life:8.1f} us a request of {PROMPT_TOKENS} + {OUTPUT_TOKENS} tokens, "
          f"with packing (budget {LIFE_BUDGET_US}); engine core's hooks {with_lives:.1f} us a step")
    shed = process.shed_level or process.ring.dropped_count or process.errors_count()
    print(f"sampled or shed: level {process.shed_level}; dropped: {process.ring.dropped_count}; "
          f"errors: {process.errors_count()}")  # fmt: skip
    ok = mean <= MEAN_BUDGET_US and p99 <= P99_BUDGET_US and life <= LIFE_BUDGET_US and not shed
    print("within budget" if ok else "OVER BUDGET")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
