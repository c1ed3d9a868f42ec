"""What the probe costs per step, driven by the engine's real scheduler, without a model or a device.

    .venv-engine/bin/python bench/probe_cost.py MODEL_DIR [RUNNING]

Every forward pass is replaced by "each request that has its prompt computed gets one token", so the scheduler's own
work and our hooks are all there is. Hooks are on and off in alternating blocks of one run; the figure by our own clocks
and the paired difference are both printed. The frontend's and the worker's hooks are driven through the engine's own
classes. Fails if anything was dropped, sampled or shed, or if what runs in the step's path exceeds the budget of
DESIGN §4 (docs/decisions/0011).
"""

from __future__ import annotations

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
BLOCK_STEPS = 20                      # steps with hooks on, then as many off
LOOP_STEPS, FLUSH_STEPS = 3000, 30    # of the frontend and the worker; 30 steps are about 100 ms
MEAN_BUDGET_US, P99_BUDGET_US, LIFE_BUDGET_US = 10.0, 40.0, 26.0


@dataclass
class Measured:
    on_us: list[float] = field(default_factory=list)       # schedule + update, hooks on
    off_us: list[float] = field(default_factory=list)      # the same, hooks off
    hook_us: list[float] = field(default_factory=list)     # by our own clocks, hooks on
    prefills: int = 0                                      # requests admitted, hooks on
    fill_us: float = 0.0                                   # a request's arrival: hooks and packing
    packing_us: float = 0.0                                # on our thread, a step


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


def drive(engine: Any, hooks: list[Any]) -> Measured:
    """Runs to the end. A step counts for `on` or `off` by its block."""
    from pellucid_probe.guard import COST
    from vllm.v1.outputs import ModelRunnerOutput

    measured, step = Measured(), 0
    while engine.has_unfinished_requests():
        on = (step // BLOCK_STEPS) % 2 == 0
        _switch(hooks, on)
        before_ns, t0 = COST.ns, time.perf_counter()
        plan = engine.schedule()
        t1 = time.perf_counter()
        ids = list(plan.num_scheduled_tokens)
        done = [engine.requests[r].num_computed_tokens >= engine.requests[r].num_prompt_tokens for r in ids]
        output = ModelRunnerOutput(req_ids=ids, req_id_to_index={r: i for i, r in enumerate(ids)},
                                   sampled_token_ids=[[5] if d else [] for d in done], pooler_output=[])  # fmt: skip
        t2 = time.perf_counter()
        engine.update_from_output(plan, output)
        t3 = time.perf_counter()
        total_us = (t1 - t0 + t3 - t2) * 1e6
        if plan.total_num_scheduled_tokens:
            (measured.on_us if on else measured.off_us).append(total_us)
            if on:
                measured.hook_us.append((COST.ns - before_ns) / 1e3)
                measured.prefills += len(plan.scheduled_new_reqs)
            step += 1
    return measured


def _switch(hooks: list[Any], on: bool) -> None:
    for hook in hooks:
        owner, attribute = hook.target.resolve()
        if not hasattr(hook, "pair"):
            wrapped = getattr(owner, attribute)
            hook.pair = (wrapped.__wrapped__, wrapped)
        setattr(owner, attribute, hook.pair[int(on)])


def frontend_us(running: int) -> float:
    """One `process_outputs` call with a step's outputs: the hook's own cost."""
    from pellucid_probe.vllm.arm import _armed
    from vllm.v1.engine import EngineCoreOutput
    from vllm.v1.engine.output_processor import OutputProcessor

    process = _armed["frontend"].process
    processor = OutputProcessor(None, log_stats=True)
    outputs = [EngineCoreOutput(request_id=f"req-{i}", new_token_ids=[5]) for i in range(running)]
    processor.request_states["waits"] = None      # as while somebody is served: with nobody left, the outbox is flushed
    before_ns = process.cost_ns()
    for step in range(LOOP_STEPS):
        processor.process_outputs(outputs, time.monotonic(), None)
        if step % FLUSH_STEPS == 0:
            process.outbox.flush()
    process.outbox.flush()
    return float(process.cost_ns() - before_ns) / 1e3 / LOOP_STEPS


def worker_us() -> float:
    """One WORK record, put and packed."""
    from pellucid_probe.vllm.arm import _armed

    worker = _armed["worker"]
    start = time.perf_counter()
    for step in range(LOOP_STEPS):
        now = time.monotonic_ns()
        worker._write(step + 1, (now, now + 1_000_000), (now, now))
        if step % FLUSH_STEPS == 0:
            worker.process.outbox.flush()
    worker.process.outbox.flush()
    return (time.perf_counter() - start) / LOOP_STEPS * 1e6


def main(model: str, running: int = 256) -> int:
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as folder:
        os.environ["PELLUCID_DIR"] = folder
        return measure(model, running)


def one_run(model: str, running: int, lives: bool) -> Measured:
    """A scheduler of its own, filled and driven to the end, with KV block lives or without."""
    from pellucid_probe.guard import COST
    from pellucid_probe.vllm import arm

    os.environ["PELLUCID_KV_LIVES"] = str(int(lives))
    process = arm._process
    assert process is not None
    arm._armed["engine_core"].kv.lives = arm._armed["engine_core"].packer.lives = None
    hooks = [h for fact, hs in process.hooks.items() if fact.startswith(("step", "kv", "request.freed")) for h in hs]
    engine = scheduler(model, running)
    before_ns = COST.ns + process.outbox.cost_ns
    fill(engine, running)
    process.outbox.flush()
    filled_us = (COST.ns + process.outbox.cost_ns - before_ns) / 1e3 / running
    packed_ns = process.outbox.cost_ns
    measured = drive(engine, list(dict.fromkeys(hooks)))
    process.outbox.flush()
    measured.fill_us = filled_us
    measured.packing_us = (process.outbox.cost_ns - packed_ns) / 1e3 / len(measured.on_us)
    return measured


def life_us(without: Measured, with_lives: Measured) -> float:
    """What KV block lives add for one request: its arrival, and its share of the steps, packing included."""
    steps = len(with_lives.on_us)
    extra = (statistics.mean(with_lives.hook_us) + with_lives.packing_us
             - statistics.mean(without.hook_us) - without.packing_us)  # fmt: skip
    return with_lives.fill_us - without.fill_us + extra * steps / with_lives.prefills


def measure(model: str, running: int) -> int:
    from pellucid_probe.vllm import arm

    for role in ("engine_core", "frontend", "worker"):
        arm.arm(role)
    process = arm._process
    assert process is not None
    measured, with_lives = one_run(model, running, False), one_run(model, running, True)
    core, ordered = statistics.mean(measured.hook_us), sorted(measured.hook_us)
    p99 = ordered[int(len(ordered) * 0.99)]
    front, work = frontend_us(running), worker_us()
    paired = statistics.median(measured.on_us) - statistics.median(measured.off_us)
    print(f"conditions: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, engine "
          f"{process.engine_version}, {running} running, {PROMPT_TOKENS}-token prompts, block {BLOCK_TOKENS}, "
          f"{len(measured.on_us)} steps on and {len(measured.off_us)} off, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"engine's own schedule + update     {statistics.median(measured.off_us):8.0f} us a step (median)")
    print(f"engine core hooks, own clocks      {core:8.1f} us mean   {statistics.median(ordered):.1f} p50   "
          f"{p99:.1f} p99")  # fmt: skip
    print(f"engine core hooks, on minus off    {paired:8.1f} us (medians; the hooks that read no clock are in it)")
    print(f"frontend hook, a step's outputs    {front:8.1f} us mean")
    print(f"worker record                      {work:8.1f} us mean")
    total = core + front + work
    print(f"in the step's path, all processes  {total:8.1f} us mean (budget {MEAN_BUDGET_US}), "
          f"{p99 + front + work:.1f} us p99 (budget {P99_BUDGET_US})")  # fmt: skip
    print(f"engine core, packing on our thread {measured.packing_us:8.1f} us mean; with it "
          f"{total + measured.packing_us:.1f}")  # fmt: skip
    life = life_us(measured, with_lives)
    print(f"KV block lives, more               {life:8.1f} us a request of {PROMPT_TOKENS} + {OUTPUT_TOKENS} tokens, "
          f"with packing (budget {LIFE_BUDGET_US}); hooks {statistics.mean(with_lives.hook_us):.1f} us a step")
    shed = process.shed_level or process.ring.dropped_count or process.errors_count()
    print(f"sampled or shed: level {process.shed_level}; dropped: {process.ring.dropped_count}; "
          f"errors: {process.errors_count()}")  # fmt: skip
    ok = total <= MEAN_BUDGET_US and p99 + front + work <= P99_BUDGET_US and life <= LIFE_BUDGET_US and not shed
    print("within budget" if ok else "OVER BUDGET")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
