"""The engine's scheduler in a plain loop, as often as a line asks for it: the other half of scheduler_speed.

    .venv-engine/bin/python bench/loop/bare_scheduler.py PROMPT_TOKENS OUTPUT_TOKENS BLOCKS BLOCK_TOKENS
    > 256
    < {"steps_count": 416, "took_s": 1.61}          steps after the first one's plan, as the pipe's are counted
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import TextIO

from pellucid_probe.vllm.offline.asked import Asked
from pellucid_probe.vllm.offline.scheduler import Engine


def turn(running: int, prompt_tokens: int, output_tokens: int, settings: dict[str, int]) -> tuple[int, float]:
    engine = Engine({"max_model_len": 8192, "max_num_seqs": running, "max_num_batched_tokens": 8192, **settings})
    core, steps, began_s = engine.scheduler, 0, 0.0
    for number in range(running):
        one = Asked(number, 0, prompt_tokens, output_tokens, (), 0, 0)
        engine.add(one, engine.prompts.tokens(one))
    gc.collect()
    gc.freeze()
    while core.requests:
        plan = core.schedule()
        began_s = began_s or time.perf_counter()
        names = list(plan.num_scheduled_tokens)
        sampled = [[5] if core.requests[n].num_computed_tokens == core.requests[n].num_tokens else [] for n in names]
        core.update_from_output(plan, engine.output(names, sampled))
        steps += 1
    gc.unfreeze()
    return steps, time.perf_counter() - began_s


def main(lines_out: TextIO, prompt_tokens: int, output_tokens: int, blocks: int, block_tokens: int) -> None:
    for line in sys.stdin:
        settings = {"num_gpu_blocks": blocks, "block_size": block_tokens}
        steps, took_s = turn(int(line), prompt_tokens, output_tokens, settings)
        print(json.dumps({"steps_count": steps, "took_s": took_s}), file=lines_out, flush=True)


if __name__ == "__main__":
    own_out, sys.stdout = sys.stdout, sys.stderr      # the engine prints
    main(own_out, *map(int, sys.argv[1:]))
