"""Small operations that belong together run as kernels of their own, and each reads and writes all numbers again.

Looks like
    Between the products stand runs of elementwise, copying and summing kernels: a norm as power, mean, root and product,
    rotations as slices, signs and sums. In an engine each run is one kernel.

Why it costs
    Such a kernel does next to no arithmetic. It lasts as long as its numbers take from memory and back, and the one behind
    it fetches them again. One kernel for the run reads and writes once.

Not this when
    Such kernels stand alone between others, as in engines, or a compiler has fused them. Norms and conversions of number
    formats count as whole kernels. A table of sums has no order: what must follow one another by number alone is counted.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import percent
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
SHARE = Limit(0.15, "ratio", "chosen: recorded models without fusing lie between 0.18 and 0.50, training jobs at 0.10 and below, engines at 0.01 (docs/definitions.md, source D2)")
LEAST = Limit(100, "kernels", "chosen: a layer of a model without fusing has about forty; fewer kernels are a test of single operators")
METRIC = {"prefill": "ttft_mean_ns", "decode": "itl_mean_ns", "mixed": "itl_mean_ns"}
SMALL = "class IN ('elementwise', 'copy', 'reduce', 'activation', 'rope')"


def judge(row: Row) -> Verdict:
    if row["phase"] is None:
        return not_applicable(f"no {LEAST.value:.0f} kernels")
    phase, all_ns = row.text("phase"), row.number("phase_ns")
    share = row.number("following_ns") / all_ns
    says = (f"{phase}: elementwise, copying and summing kernels are {row.number('small_count'):.0f} of {row.number('kernels_count'):.0f} and "
            f"take {percent(row.number('small_ns') / all_ns)} of the time, {'' if row['timed_count'] else 'at least '}{percent(share)} in such as follow another of them")  # fmt: skip
    if share < SHARE.value:
        return clear(says)
    return found(f"{says}: fused, a run of them would read and write once (compile the model, or serve it by an engine's own implementation)",
                 Gain(METRIC.get(phase, "e2e_mean_ns"), 0.0, share, "end_to_end"), {})  # fmt: skip


HEAD = "repeat  capture  kind  class  phase  start_ns  duration_ns  count\n"


def _case(*classes: str, times: int = 50, kind: str = "kernel") -> dict[str, str]:
    """Kernels by class and duration, one behind the other, and so on."""
    lines = [f"1  c  {kind}  {line.split()[0]}  decode  {n * len(classes) + at}  {line.split()[1]}  1" for n in range(times) for at, line in enumerate(classes)]
    return {"captures": "capture\nc", "kernels": HEAD + "\n".join(lines)}


def _table(*lines: str) -> dict[str, str]:
    """A table of sums: class, duration and executions."""
    return {"captures": "capture\nc", "kernels": HEAD + "\n".join("1  c  kernel  {}  -  -  {}  {}".format(*line.split()) for line in lines)}


RULE = Rule(
    id="kernel.elementwise_unfused",
    question="Do small operations that belong together run as kernels of their own?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("kernels", ("class", "duration_ns", "kind", "count"), CAPTURE, optional=("capture", "device_index", "stream", "phase", "start_ns"))),
    evidence=f"""
        WITH k AS (SELECT CASE WHEN start_ns IS NOT NULL THEN phase END AS phase, start_ns, duration_ns, count, {SMALL} AS small,
                          lag({SMALL}) OVER (PARTITION BY capture, device_index, stream ORDER BY start_ns) AS behind_small
                   FROM kernels WHERE kind IN ('kernel') AND duration_ns IS NOT NULL),
             s AS (SELECT phase, sum(count) AS kernels_count, count(start_ns) AS timed_count, sum(duration_ns) AS phase_ns,
                          coalesce(sum(count) FILTER (small), 0) AS small_count, coalesce(sum(duration_ns) FILTER (small), 0) AS small_ns,
                          coalesce(sum(duration_ns) FILTER (small AND behind_small), 0) AS seen_ns
                   FROM k GROUP BY phase, start_ns IS NULL),
             p AS (SELECT s.*, CASE WHEN timed_count THEN seen_ns ELSE small_ns * greatest(0, 2 * small_count - kernels_count) / greatest(1, small_count) END AS following_ns
                   FROM s WHERE kernels_count >= {LEAST.value} ORDER BY following_ns / phase_ns DESC LIMIT 1)
        SELECT any_value(coalesce(phase, 'the capture')) AS phase, any_value(kernels_count) AS kernels_count, any_value(timed_count) AS timed_count,
               any_value(phase_ns) AS phase_ns, any_value(small_count) AS small_count, any_value(small_ns) AS small_ns, any_value(following_ns) AS following_ns FROM p
    """,
    judge=judge,
    limits=(SHARE, LEAST),
    moves=(),
    falsified_by="a capture of the compiled model shows steps as long, or as many kernels in them",
    explained_by=("host.engine_core_behind",),
    cases=(
        Case("a norm in four kernels", "found", _case("gemm 400", "elementwise 100", "reduce 100", "elementwise 100", "elementwise 100"),
             says="decode: elementwise, copying and summing kernels are 200 of 250 and take 50% of the time, 38% in such as follow another of them"),
        Case("each alone between others", "clear", _case("gemm 200", "elementwise 200", "attention 100", "copy 100"), says="0%"),
        Case("norms and conversions are whole", "clear", _case("gemm 200", "norm 200", "quant 200", "copy 100"), says="are 50 of 200"),
        Case("a table in which some must follow", "found", _table("gemm 60e6 50", "elementwise 40e6 100"), says="40% of the time, at least 20% in such as"),
        Case("a table in which none need to", "clear", _table("gemm 60e6 100", "elementwise 40e6 99"), says="at least 0%"),
        Case("a table without any", "clear", _table("gemm 60e6 100"), says="are 0 of 100"),
        Case("as few kernels as it takes", "found", _case("gemm 50", "copy 25", "copy 25", "rope 25", times=25), says="are 75 of 100"),
        Case("fewer kernels", "not_applicable", _case("gemm 50", "copy 25", "copy 25", times=33), says="no 100 kernels"),
        Case("copies of memory are no kernels", "not_applicable", _case("gemm 50", "copy 25", "copy 25", kind="memcpy")),
        Case("no kernel has a time", "blind", _table("gemm - 1000"), says="kernels.duration_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
