"""Dense products take longer than a good library needs for their shapes.

Looks like
    Products with weights take much of a phase, and each of them takes longer than the device needs for its bytes or its
    arithmetic, by more than libraries are seen to take.

Why it costs
    A kernel with the wrong tile, one made for an older device or a layout that has to be turned leaves the matrix units
    waiting. The time above what a library reaches is lost in every layer.

Not this when
    Products are small. A few microseconds are gone before the first bytes arrive, so a product of a decode comes to half
    its roof and less, and no kernel does better. Nor where only a data sheet says what the device can: it is allowed to be
    much slower than that. Experts' products are not dense ones.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import (
    CLEAR,
    FOUND,
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

CAPTURE = "capture kernels: pellucid profile, or load a trace; shapes need its operators, or --model with a config.json"
WORTH = Limit(0.05, "ratio", "chosen: another kernel is looked for by hand, for less than a twentieth of a phase it is not worth it")
MOST = Limit(0.5, "ratio", "chosen: what is said of products has to hold for half of their time")
START = Limit(5000, "ns", "measured: a library's products of 0.6 to 35 MB took 2.7 to 5.9 µs longer than their bytes on an H200 (docs/definitions.md, source K5)")
COMPUTE = Limit(0.85, "ratio", "measured: a library's products of a prefill came to 0.89 of the measured ceiling or more on an H200 (docs/definitions.md, source K5)")
MEMORY = Limit(0.9, "ratio", "measured: a library's product of 620 MB came to 0.95 of the measured copy or more on an H200 (docs/definitions.md, source K5)")
PEAK_COMPUTE = Limit(0.45, "ratio", "public tests of a device whose library comes to 0.45 of the data sheet; another reaches 0.82 (docs/definitions.md, source K6)")
PEAK_MEMORY = Limit(0.75, "ratio", "public tests: 0.81 and 0.88 of the data sheet's memory (docs/definitions.md, source K6), less what MEMORY leaves")
REACH = (("measured", "compute", COMPUTE), ("measured", "memory", MEMORY), ("peak", "compute", PEAK_COMPUTE), ("peak", "memory", PEAK_MEMORY))
METRICS = {"prefill": "ttft_mean_ns", "mixed": "ttft_mean_ns", "decode": "itl_mean_ns"}


def judge(row: Row) -> Verdict:
    if row["gemm_ns"] is None:
        return not_applicable("no dense products in the captured steps")
    took, phase = row.number("gemm_ns"), str(row["phase"] or "")
    says = f"{phase or 'outside of steps'}: dense products take {percent(took / row.number('phase_ns'))} of the time"
    known_ns = row["known_ns"] or 0
    if known_ns < MOST.value * took:
        return not_applicable(f"{says}, and the work of most of them is not known")
    late, near = row.number("late_ns") / row.number("phase_ns"), row.number("roof_ns") / known_ns
    roof, far = (("the data sheet's roof", "how much of that can be reached nobody measured: no gain is sure") if row.text("basis") == "peak"
                 else ("the measured roof", "a library comes no nearer with such shapes: nothing to gain there"))
    says += f", {duration(known_ns / row.number('kernels_count'))} each on average at {percent(near)} of {roof}"
    if late < WORTH.value:
        return clear(f"{says}; {far}" if near < COMPUTE.value else f"{says}: nothing to gain there")
    metric = METRICS.get(phase)
    return found(f"{says}; a library was seen to need {percent(late)} of the time less for such shapes",
                 Gain(metric or "e2e_mean_ns", 0.0, late, "end_to_end" if metric else "local"), {})  # fmt: skip


HEAD = "capture  phase  kind  class  duration_ns  roof_ns  bound  roof_basis\n"


def _case(*kernels: str, end_ns: int = 0) -> dict[str, str]:
    return {"captures": "capture\nc", "capture_steps": f"capture  phase  start_ns  end_ns\nc  decode  0  {end_ns}",
            "kernels": HEAD + "\n".join(f"c  decode  {k}" for k in kernels)}  # fmt: skip


def _late(lost_ns: int, basis: str, bound: str, ratio: float) -> dict[str, str]:
    """A product that takes so much longer than what can be reached, of a millisecond in all."""
    took = 105_000 + lost_ns
    return _case(f"kernel  gemm  {took}  {ratio * 100_000:.0f}  {bound}  {basis}", f"kernel  norm  {1_000_000 - took}  -  -  -")


RULE = Rule(
    id="kernel.gemm_far_from_roof",
    question="Do dense products take longer than a good library needs for their shapes?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("kernels", ("class", "duration_ns", "kind"), CAPTURE, optional=("capture", "phase", "roof_ns", "bound", "roof_basis", "count")),
           Need("capture_steps", (), CAPTURE, optional=("capture", "phase", "start_ns", "end_ns", "idle_before_ns", "busy_ns", "prefill_tokens", "decode_tokens"))),
    evidence=f"""
        WITH reach(basis, bound, ratio) AS (VALUES {", ".join(f"('{basis}', '{bound}', {limit.value})" for basis, bound, limit in REACH)}),
             p AS (SELECT phase, sum(greatest(kernels_ns, step_ns)) AS phase_ns FROM capture_phases GROUP BY phase),
             k AS (SELECT phase, duration_ns, roof_ns, bound, split_part(roof_basis, ',', 1) AS basis FROM kernels WHERE class IN ('gemm') AND kind IN ('kernel')),
             g AS (SELECT phase, sum(duration_ns) AS gemm_ns, count(ratio) AS kernels_count, mode(basis) AS basis, sum(roof_ns) FILTER (ratio IS NOT NULL) AS roof_ns,
                          sum(duration_ns) FILTER (ratio IS NOT NULL) AS known_ns, sum(greatest(0, duration_ns - {START.value} - roof_ns / ratio)) FILTER (ratio IS NOT NULL) AS late_ns
                   FROM k LEFT JOIN reach USING (basis, bound) GROUP BY phase),
             b AS (SELECT g.*, phase_ns FROM g JOIN p ON g.phase IS NOT DISTINCT FROM p.phase ORDER BY late_ns / phase_ns DESC NULLS LAST, gemm_ns DESC LIMIT 1)
        SELECT phase, basis, kernels_count, gemm_ns, known_ns, roof_ns, late_ns, phase_ns FROM (SELECT 1) LEFT JOIN b ON true
    """,
    judge=judge,
    limits=(WORTH, MOST, START, COMPUTE, MEMORY, PEAK_COMPUTE, PEAK_MEMORY),
    moves=(),     # which kernel multiplies is up to the engine's libraries, and to no setting of it
    falsified_by="the same shapes, timed alone with the device's own library, take as long as in the capture",
    explained_by=("host.engine_core_behind",),
    cases=(
        Case("a product far from its roof", "found", _case("kernel  gemm  400e3  170e3  compute  measured", "kernel  norm  600e3  -  -  -"),
             says="decode: dense products take 40% of the time, 400 µs each on average at 42% of the measured roof; a library was seen to need 20% of the time less for such shapes"),
        *(Case(f"{kind}: {bound}, {basis}", kind, _late(lost_ns, basis, bound, limit.value), says=says)
          for lost_ns, kind, says in ((50_500, FOUND, "a library was seen to need 5.1%"), (49_500, CLEAR, " gain ")) for basis, bound, limit in REACH),
        Case("a peak in dispute is one", "found", _case("kernel  gemm  400e3  90e3  compute  peak, disputed"), says="22% of the data sheet's roof"),
        Case("small products of a decode", "clear", _case("kernel  gemm  8200  4100  memory  measured"), says="at 50% of the measured roof; a library comes no nearer with such shapes"),
        Case("at the roof", "clear", _case("kernel  gemm  100e3  93e3  compute  measured"), says="93% of the measured roof: nothing to gain there"),
        Case("of steps that mostly wait", "clear", _case("kernel  gemm  400e3  170e3  compute  measured", end_ns=4_000_000), says="take 10% of the time"),
        Case("work is not known", "not_applicable", _case("kernel  gemm  400e3  -  -  -"), says="not known"),
        Case("experts only", "not_applicable", _case("kernel  moe_gemm  400e3  1e3  compute  measured"), says="no dense products"),
        Case("no kernel has a time", "blind", _case("kernel  gemm  -  -  -  -"), says="kernels.duration_ns"),
    ),
    asked_of="captures",
    views=("capture_phases",),
)  # fmt: skip
