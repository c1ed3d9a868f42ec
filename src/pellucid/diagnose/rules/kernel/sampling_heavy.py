"""Choosing the next tokens from the logits takes much of a decode step.

Looks like
    Behind the last product of a decode step stand kernels that sort, sum up and mask a row as long as the vocabulary for
    each request, and they take a tenth of the step or more.

Why it costs
    Top-k and top-p by sorting read and write all logits several times. Those of 64 requests and 150,000 words are 38 MB in
    32 bits. The step waits for it: the next one needs the tokens.

Not this when
    Sums and elementwise kernels of layers are meant: those within layers do not count. Where layers do not show, only
    kernels that sample or sort do. Drafts and their check are no part of it.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import (
    Case,
    Gain,
    Limit,
    Need,
    Row,
    Rule,
    Verdict,
    clear,
    found,
    not_applicable,
)

CAPTURE = "capture kernels: pellucid profile, or load a trace"
SHARE = Limit(0.1, "ratio", "chosen: ten times what sampling without top-k and top-p took in a recorded decode of 64 requests (docs/definitions.md, source D3)")
STEPS = Limit(3, "steps", "chosen: the first step after a pause runs slower, and of three the others outweigh it")
TAIL = "class IN ('reduce', 'elementwise', 'copy', 'index') AND layer IS NULL"      # softmax, temperature, masks, gathering


def judge(row: Row) -> Verdict:
    steps = row.number("steps_count")
    if steps < STEPS.value:
        return not_applicable(f"{steps:.0f} decode steps with kernels; it takes {STEPS.value:.0f} to judge")
    share = row.number("sampling_ns") / row.number("kernels_ns")
    says = (f"from logits to tokens: {percent(share)} of {duration(row.number('kernels_ns') / steps)} of kernels a decode step, "
            f"{duration(row.number('sort_ns') / steps)} of it sorts or scans")  # fmt: skip
    if share < SHARE.value:
        return clear(says)
    return found(f"{says}: whole rows of the vocabulary are sorted or summed for each request (requests without top_p and with a small top_k, or a sampler in one kernel, need not)",
                 Gain("itl_mean_ns", 0.0, share, "end_to_end"), {})  # fmt: skip


HEAD = "repeat  capture  step  phase  kind  class  layer  duration_ns\n"


def _case(*kernels: str, steps: int = 3, phase: str = "decode", kind: str = "kernel") -> dict[str, str]:
    """The same kernels in each step: class, layer and duration."""
    lines = (f"1  c  {n}  {phase}  {kind}  {'  '.join(k.split())}" for n in range(steps) for k in kernels)
    return {"captures": "capture\nc", "kernels": HEAD + "\n".join(lines)}


RULE = Rule(
    id="kernel.sampling_heavy",
    question="Does choosing tokens from the logits take much of a decode step?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("kernels", ("class", "duration_ns", "kind"), CAPTURE, optional=("capture", "step", "phase", "layer"))),
    evidence=f"""
        WITH k AS (SELECT capture, step, class, layer, duration_ns FROM kernels
                   WHERE phase IN ('decode') AND kind IN ('kernel', 'op') AND step IS NOT NULL AND duration_ns IS NOT NULL)
        SELECT count(DISTINCT concat_ws(' ', capture, step)) AS steps_count,
               sum(duration_ns) AS kernels_ns,
               coalesce(sum(duration_ns) FILTER (class IN ('sampling', 'sort_scan')), 0)
                 + coalesce(sum(duration_ns) FILTER ({TAIL}), 0) * sign(count(layer)) AS sampling_ns,
               coalesce(sum(duration_ns) FILTER (class IN ('sort_scan')), 0) AS sort_ns
        FROM k
    """,
    judge=judge,
    limits=(SHARE, STEPS),
    moves=(),
    falsified_by="requests without top_k and top_p, or another sampler, leave the decode steps as long as they are",
    explained_by=("host.engine_core_behind",),
    cases=(
        Case("rows of the vocabulary are sorted", "found", _case("gemm 0 700e3", "reduce - 50e3", "sort_scan - 150e3", "sampling - 100e3"),
             says="from logits to tokens: 30% of 1.0 ms of kernels a decode step, 150 µs of it sorts or scans"),
        Case("just a tenth", "found", _case("gemm 0 900e3", "elementwise - 100e3"), says="10% of 1.0 ms"),
        Case("a draw and a softmax", "clear", _case("gemm 0 970e3", "reduce - 20e3", "sampling - 10e3"), says="3.0% of 1.0 ms of kernels a decode step, 0 ms of it"),
        Case("sums and copies of layers", "clear", _case("gemm 0 500e3", "reduce 0 300e3", "copy 0 200e3"), says="0% of"),
        Case("layers do not show", "clear", _case("gemm - 500e3", "reduce - 300e3", "sampling - 20e3"), says="2.4% of"),
        Case("two steps", "not_applicable", _case("gemm 0 900e3", "sort_scan - 100e3", steps=2), says="2 decode steps with kernels; it takes 3"),
        Case("prompts", "not_applicable", _case("gemm 0 900e3", "sort_scan - 100e3", phase="prefill"), says="0 decode steps"),
        Case("copies to the host", "not_applicable", _case("copy - 100e3", kind="memcpy"), says="0 decode steps"),
        Case("no kernel has a time", "blind", _case("gemm 0 -"), says="kernels.duration_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
