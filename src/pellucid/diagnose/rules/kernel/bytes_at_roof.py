"""The kernels that take most of a step already move bytes as fast as the device can: only fewer bytes make it faster.

Looks like
    In a phase one class of kernels, products with weights or attention over the cache, takes much of the time. Its bytes,
    divided by its time, are near what the device was measured to copy.

Why it costs
    A decode reads all weights it touches, and every token of the cache it attends to, for one token of each request. At
    the roof of the memory no better kernel helps. Numbers of half the size take half the time.

Not this when
    The kernel is far from its roof, or bound by arithmetic: then a better kernel, or a larger batch, is the matter. Where
    numbers have 8 bits already, or the work is not known, nothing is said.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import (
    Case,
    Gain,
    Limit,
    Move,
    Need,
    Row,
    Rule,
    Verdict,
    clear,
    found,
    not_applicable,
)

CAPTURE = "capture kernels: pellucid profile, or load a trace"
NEAR = Limit(0.85, "ratio", "measured: experts' products at 0.89 of this roof on an H200 gained 2 % at most by tuning (docs/definitions.md, source K1)")
SHARE = Limit(0.25, "ratio", "chosen: half the bytes of a quarter of the time is an eighth of it, the least that other numbers are worth judging for")
STEPS = Limit(3, "steps", "chosen: the first step after a pause runs slower, and of three the others outweigh it")
HALF = 0.5      # 8 bits for 16; scales add less than a hundredth


def judge(row: Row) -> Verdict:
    if row["class"] is None:
        return not_applicable("no products or attention whose bytes bind, and whose work is known, in three steps of a phase")
    share, near = row.number("class_ns") / row.number("phase_ns"), row.number("roof_ns") / row.number("roofed_ns")
    steps, name, phase = row.number("steps_count"), row.text("class"), row.text("phase")
    batch = f" at batch {row['batch_count']:.0f}" if row["batch_count"] else ""
    rate = row.number("moved_bytes") / row.number("roofed_ns")
    says = (f"{phase}{batch} takes {duration(row.number('phase_ns') / steps)} of kernels a step; {name} is {percent(share)} of it and "
            f"moves {rate / 1000:.2f} TB/s, {percent(near)} of what the device can")  # fmt: skip
    if near < NEAR.value or share < SHARE.value:
        return clear(says)
    if row["bits_count"] == 8:
        return clear(f"{says}, in numbers of 8 bits already: nothing to gain in the kernel")
    knob = "kv_cache_fp8" if name == "attention" else "weights_fp8"
    metric = "ttft_mean_ns" if phase == "prefill" else "itl_mean_ns"
    return found(f"{says}: nothing to gain in the kernel, only in fewer bytes",
                 Gain(metric, 0.0, HALF * share, "end_to_end"), {knob: 1.0})  # fmt: skip


STEP = "capture  step  phase  decode_requests_count\n"
HEAD = "capture  step  kind  class  duration_ns  roof_ns  moved_bytes  bound  precision\n"


def _case(*kernels: str, steps: int = 3) -> dict[str, str]:
    """The same kernels in each step: class, duration, roof, bytes, bound, precision."""
    return {"captures": "capture\nc", "capture_steps": STEP + "\n".join(f"c  {n}  decode  64" for n in range(steps)),
            "kernels": HEAD + "\n".join(f"c  {n}  kernel  {k}" for n in range(steps) for k in kernels)}  # fmt: skip


RULE = Rule(
    id="kernel.bytes_at_roof",
    question="Do the kernels that take most of a step already move bytes as fast as the device can?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("capture_steps", ("capture", "step"), CAPTURE, optional=("device_index", "phase", "decode_requests_count", "prefill_requests_count"), fact="worker.captures"),
           Need("kernels", ("class", "duration_ns", "kind"), CAPTURE, optional=("capture", "step", "device_index", "roof_ns", "moved_bytes", "bound", "precision"))),
    evidence=f"""
        WITH b AS (SELECT phase, mode(decode_requests_count) AS batch FROM capture_steps WHERE phase = 'decode' GROUP BY phase),
             s AS (SELECT capture, step, device_index, s.phase, b.batch FROM capture_steps s LEFT JOIN b USING (phase)
                   WHERE s.phase IS NOT NULL AND (b.batch IS NULL OR s.decode_requests_count = b.batch)),
             n AS (SELECT phase, count(*) AS steps FROM s GROUP BY phase),
             k AS (SELECT s.phase, s.batch, k.class, k.duration_ns, k.roof_ns, k.moved_bytes, k.bound, k.precision FROM kernels k
                   JOIN s ON k.capture = s.capture AND k.step = s.step AND k.device_index IS NOT DISTINCT FROM s.device_index WHERE k.kind <> 'memcpy' AND k.kind <> 'memset'),
             c AS (SELECT phase, any_value(batch) AS batch, class, sum(duration_ns) AS class_ns, sum(roof_ns) AS roof_ns,
                          sum(duration_ns) FILTER (roof_ns IS NOT NULL) AS roofed_ns, sum(moved_bytes) FILTER (roof_ns IS NOT NULL) AS moved_bytes,
                          sum(roof_ns) FILTER (bound = 'memory') / sum(roof_ns) AS by_memory, mode(precision) AS precision,
                          sum(sum(duration_ns)) OVER (PARTITION BY phase) AS phase_ns FROM k GROUP BY phase, class),
             m AS (SELECT c.*, n.steps FROM c JOIN n USING (phase) WHERE class IN ('gemm', 'moe_gemm', 'attention') AND by_memory > 0.5
                   AND roofed_ns > 0.5 * class_ns AND n.steps >= {STEPS.value}
                   ORDER BY (roof_ns >= {NEAR.value} * roofed_ns AND class_ns >= {SHARE.value} * phase_ns) DESC, class_ns DESC LIMIT 1)
        SELECT any_value(phase) AS phase, any_value(class) AS class, any_value(batch) AS batch_count, any_value(steps) AS steps_count,
               any_value(class_ns) AS class_ns, any_value(phase_ns) AS phase_ns, any_value(roof_ns) AS roof_ns, any_value(roofed_ns) AS roofed_ns,
               any_value(moved_bytes) AS moved_bytes, any_value(CASE WHEN precision IN ('fp8', 'int8', 'fp4', 'int4') THEN 8 ELSE 16 END) AS bits_count FROM m
    """,
    judge=judge,
    limits=(NEAR, SHARE, STEPS),
    moves=(Move("weights_fp8", "set", "other numbers: judge the answers before it is kept"),
           Move("kv_cache_fp8", "set", "other numbers, most of all in long contexts: judge the answers before it is kept")),
    falsified_by="a capture after the move shows the class with as much time a step, or as many bytes",
    explained_by=(),
    cases=(
        Case("experts at the roof", "found", _case("moe_gemm  700  680  2.87e6  memory  bf16", "norm  300  -  -  -  -"),
             says="decode at batch 64 takes 1.0 µs of kernels a step; moe_gemm is 70% of it and moves 4.10 TB/s, 97% of what the device can: nothing to gain"),
        Case("just at the limits", "found", _case("attention  100  85  4e5  memory  bf16", "norm  300  -  -  -  -"), says="attention is 25% of it"),
        Case("just below the roof", "clear", _case("moe_gemm  1000  849  4e5  memory  bf16"), says="85% of what the device can"),
        Case("a small share", "clear", _case("gemm  24  24  1e5  memory  bf16", "norm  76  -  -  -  -"), says="gemm is 24% of it"),
        Case("8 bits already", "clear", _case("moe_gemm  700  680  2.8e6  memory  fp8"), says="in numbers of 8 bits already"),
        Case("bound by arithmetic", "not_applicable", _case("gemm  700  680  2.8e6  compute  bf16")),
        Case("two steps", "not_applicable", _case("gemm  700  680  2.8e6  memory  bf16", steps=2)),
        Case("most work is not known", "not_applicable", _case("gemm  700  -  -  -  bf16", "gemm  600  590  2e6  memory  bf16")),
        Case("no kernel has a time", "blind", _case("gemm  -  -  -  -  -"), says="kernels.duration_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
