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
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

CAPTURE = "capture kernels of a running engine: pellucid profile, or load a trace that has its steps"
NEAR = Limit(0.85, "ratio", "measured: experts' products at 0.89 of this roof on an H200 gained 2 % at most by tuning (docs/definitions.md, source K1)")
SHARE = Limit(0.25, "ratio", "chosen: half the bytes of a quarter of the time is an eighth of it, the least that other numbers are worth judging for")
STEPS = Limit(5, "steps", "chosen: the first step after a pause runs slower, and of five the others outweigh it")
MOST = Limit(0.5, "ratio", "chosen: what is said of a class has to hold for half of its time, and of its roof")
HALF = 0.5      # 8 bits for 16; scales add less than a hundredth
BITS = {"fp8": 8, "int8": 8, "fp4": 4, "int4": 4}
KNOBS = {"attention": "kv_cache_fp8"}
METRICS = {"prefill": "ttft_mean_ns"}


def judge(row: Row) -> Verdict:
    if row["class"] is None:
        return not_applicable("no products or attention whose work is known in the captured steps")
    took, phase_ns, roofed_ns, roof_ns = (row.number(c) for c in ("class_ns", "phase_ns", "roofed_ns", "roof_ns"))
    name, phase, share, near = row.text("class"), row.text("phase"), took / phase_ns, roof_ns / roofed_ns
    if roofed_ns < MOST.value * took or row.number("memory_roof_ns") < MOST.value * roof_ns:
        return not_applicable(f"{phase}: the work of {name} is mostly unknown, or bound by arithmetic")
    if row.number("steps_count") < STEPS.value:
        return not_applicable(f"{phase}: {row.number('steps_count'):.0f} steps are too few to judge")
    batch = f" at batch {row['batch_count']:.0f}" if row["batch_count"] else ""
    rate = row.number("moved_bytes") / roofed_ns
    kernels_ns = row.number("kernels_ns")
    says = (f"{phase}{batch} takes {duration(phase_ns)} a step with {duration(kernels_ns)} of kernels; {name} is {percent(took / kernels_ns)} of them "
            f"({duration(took)}) and moves {rate / 1000:.2f} TB/s where its work is known, {percent(near)} of what the device can")  # fmt: skip
    if near < NEAR.value:
        return clear(says)
    bits = BITS.get(str(row["precision"]))
    if bits:
        return clear(f"{says}, in numbers of {bits} bits already: nothing to gain in the kernel")
    says += ": nothing to gain in the kernel, only in fewer bytes"
    if share < SHARE.value:
        return clear(says)
    return found(says, Gain(METRICS.get(phase, "itl_mean_ns"), 0.0, HALF * share, "end_to_end"), {KNOBS.get(name, "weights_fp8"): 1.0})


STEP = "capture  step  device_index  phase  decode_requests_count  start_ns  end_ns  idle_before_ns\n"
HEAD = "capture  step  device_index  kind  class  duration_ns  roof_ns  moved_bytes  bound  precision\n"
NORM = "norm  300  -  -  -  -"


def _case(*kernels: str, steps: int = 5, phase: str = "decode", end_ns: int = 900, kind: str = "kernel") -> dict[str, str]:
    """The same kernels in each step of two devices: class, duration, roof, bytes, bound, precision."""
    each = [(n, d) for n in range(steps) for d in (0, 1)]
    return {"captures": "capture\nc", "capture_steps": STEP + "\n".join(f"c  {n}  {d}  {phase}  64  0  {end_ns}  100" for n, d in each),
            "kernels": HEAD + "\n".join(f"c  {n}  {d}  {kind}  {k}" for n, d in each for k in kernels)}  # fmt: skip


RULE = Rule(
    id="kernel.bytes_at_roof",
    question="Do the kernels that take most of a step already move bytes as fast as the device can?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("capture_steps", ("capture", "step"), CAPTURE, optional=("device_index", "phase", "decode_requests_count", "start_ns", "end_ns", "idle_before_ns"), fact="worker.captures"),
           Need("kernels", ("class", "duration_ns", "kind"), CAPTURE, optional=("capture", "step", "device_index", "roof_ns", "moved_bytes", "bound", "precision"))),
    # Only decodes of the same batch take the same time. What holds best comes first: a limit that is kept counts 1.
    evidence=f"""
        WITH s AS (SELECT *, coalesce(device_index, 0) AS device, CASE phase WHEN 'decode' THEN decode_requests_count END AS batch FROM capture_steps),
             n AS (SELECT phase, batch, count(DISTINCT (capture, step)) AS steps, count(*) AS times, sum(end_ns - start_ns + coalesce(idle_before_ns, 0)) AS step_ns FROM s GROUP BY ALL),
             k AS (SELECT s.phase, s.batch, k.* FROM (SELECT *, coalesce(device_index, 0) AS device FROM kernels WHERE kind IN ('kernel')) k JOIN s USING (capture, step, device)),
             c AS (SELECT phase, batch, class, sum(duration_ns) AS class_ns, sum(sum(duration_ns)) OVER (PARTITION BY phase, batch) AS kernels_ns, sum(roof_ns) AS roof_ns,
                          sum(duration_ns) FILTER (roof_ns IS NOT NULL) AS roofed_ns, sum(moved_bytes) FILTER (roof_ns IS NOT NULL) AS moved_bytes,
                          coalesce(sum(roof_ns) FILTER (bound IN ('memory')), 0) AS memory_roof_ns, mode(precision) AS precision FROM k GROUP BY phase, batch, class),
             m AS (SELECT c.*, steps, times, greatest(step_ns, kernels_ns) AS phase_ns FROM c JOIN n ON c.phase IS NOT DISTINCT FROM n.phase AND c.batch IS NOT DISTINCT FROM n.batch
                   WHERE c.phase IS NOT NULL AND roofed_ns IS NOT NULL AND class IN ('gemm', 'moe_gemm', 'attention')),
             b AS (SELECT * FROM m ORDER BY least(roof_ns / roofed_ns / {NEAR.value}, 1) * least(class_ns / phase_ns / {SHARE.value}, 1) * least(steps / {STEPS.value}, 1)
                   * least(roofed_ns / class_ns / {MOST.value}, 1) * least(memory_roof_ns / roof_ns / {MOST.value}, 1) DESC NULLS LAST, class_ns DESC LIMIT 1)
        SELECT phase, class, batch AS batch_count, steps AS steps_count, class_ns / times AS class_ns, kernels_ns / times AS kernels_ns, phase_ns / times AS phase_ns, roof_ns / times AS roof_ns,
               roofed_ns / times AS roofed_ns, memory_roof_ns / times AS memory_roof_ns, moved_bytes / times AS moved_bytes, precision FROM (SELECT 1) LEFT JOIN b ON true
    """,
    judge=judge,
    limits=(NEAR, SHARE, STEPS, MOST),
    moves=(Move("weights_fp8", "set", "other numbers: judge the answers before it is kept"),
           Move("kv_cache_fp8", "set", "other numbers, most of all in long contexts: judge the answers before it is kept")),
    falsified_by="a capture after the move shows the class with as much time a step, or as many bytes",
    explained_by=("host.engine_core_behind",),
    cases=(
        Case("experts at the roof", "found", _case("moe_gemm  700  680  2.87e6  memory  bf16", NORM),
             says="decode at batch 64 takes 1.0 µs a step with 1.0 µs of kernels; moe_gemm is 70% of them (700 ns) and moves 4.10 TB/s where its work is known, 97% of what the device can: nothing to gain in the kernel, only in fewer bytes"),
        Case("a quarter of a step that waits for the host", "found", _case("attention  100  85  4e5  memory  bf16", NORM, end_ns=300), says="attention is 25% of them"),
        Case("less than a quarter", "clear", _case("attention  99  90  4e5  memory  bf16", NORM, end_ns=300), says="25% of them (99 ns) and moves 4.04 TB/s where its work is known, 91% of what the device can: nothing to gain"),
        Case("just below the roof", "clear", _case("moe_gemm  1000  849  4e5  memory  bf16"), says="85% of what the device can"),
        Case("the roof counts most", "found", _case("attention  600  300  4e5  memory  bf16", "gemm  400  390  4e5  memory  bf16"), says="gemm is 40%"),
        Case("8 bits already", "clear", _case("moe_gemm  700  680  2.8e6  memory  fp8", phase="prefill"), says="prefill takes 1.0 µs a step with 700 ns of kernels; moe_gemm is 100% of them (700 ns) and moves 4.00 TB/s where its work is known, 97% of what the device can, in numbers of 8 bits already"),
        Case("bound by arithmetic", "not_applicable", _case("gemm  700  680  2.8e6  compute  bf16"), says="bound by arithmetic"),
        Case("four steps, of two devices each", "not_applicable", _case("gemm  700  680  2.8e6  memory  bf16", steps=4), says="4 steps are too few"),
        Case("most work is not known", "not_applicable", _case("gemm  700  -  -  -  bf16", "gemm  600  590  2e6  memory  bf16"), says="mostly unknown"),
        Case("copies are no kernels", "not_applicable", _case("gemm  700  680  2.8e6  memory  bf16", kind="memcpy"), says="no products"),
        Case("no kernel has a time", "blind", _case("gemm  -  -  -  -  -"), says="kernels.duration_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
