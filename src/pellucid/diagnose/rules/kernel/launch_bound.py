"""Kernels are so short, and so many, that the device waits for the host to launch the next one.

Looks like
    Hundreds of kernels of a few microseconds in a step, and behind most of them a gap in which the device has nothing to
    do, because the host has not yet launched what comes next.

Why it costs
    A launch takes the host microseconds, and a framework's work before it tens of them. Where a kernel takes less, the
    step lasts as long as the host's loop does. A device graph starts all kernels of a step with one launch.

Not this when
    The device is busy, the host waits for the device, or steps run as device graphs. Nor for gaps of more than a
    millisecond: the host did something else then. A profiler slows launches down, so a gain is the most there can be.
    Where a trace has no steps, short gaps cannot be told apart by cause.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

CAPTURE = "capture kernels: pellucid profile, or load a trace that has times"
SHARE = Limit(0.25, "ratio", "chosen: of recorded traces the launch-bound lie at 0.53 and above, the others at 0.10 and below; if half of it is the profiler's, an eighth is left (docs/definitions.md, source D1)")
LEAST = Limit(100, "kernels", "chosen: fewer are the edge of a step or a test of single operators, and no stream that a host has to feed")
LONG = Limit(1e6, "ns", "chosen: thirteen times the median gap of the slowest host recorded; behind a longer one is other work (source D1)")
WORTH = Limit(0.05, "ratio", "chosen: less than a twentieth of all captured steps' time is no reason to act; a lone step of a size without a graph is less")
METRIC = {"prefill": "ttft_mean_ns", "decode": "itl_mean_ns", "mixed": "itl_mean_ns"}


def judge(row: Row) -> Verdict:
    if row["phase"] is None:
        if row["graph_steps_count"]:
            return clear("its steps run as device graphs: one launch starts their kernels")
        return not_applicable(f"no {LEAST.value:.0f} kernels outside of device graphs")
    kernels, span, phase = row.number("kernels_count"), row.number("span_ns"), row.text("phase")
    share = row.number("launch_ns") / span
    says = (f"{phase}: {kernels:.0f} kernels of {duration(row.number('kernels_ns') / kernels)} on average, and in {percent(share)} of "
            f"{duration(span)} the device waits for the host to launch the next")  # fmt: skip
    if share < SHARE.value:
        return clear(says)
    most = share * span / row.number("steps_ns")
    if most < WORTH.value:
        return clear(f"{says}, but that is {percent(most)} of the captured steps' time")
    says += " (a profiler makes that longer than it is without)"
    gain = Gain(METRIC.get(phase, "e2e_mean_ns"), 0.0, most, "end_to_end")
    if not row["graph_steps_count"]:
        return found(says, gain, {"device_graphs": 1.0})
    says, tokens, captured = f"{says}; other steps run as device graphs", row["step_tokens"], row["graph_tokens"]
    if tokens is None or captured is None or tokens <= captured:
        return found(f"{says}, and why these do not is not seen", gain, {})
    return found(f"{says}, of up to {captured:,.0f} tokens, and these have {tokens:,.0f}", gain, {"largest_device_graph": tokens})


KERNELS = "capture  device_index  step  kind  start_ns  duration_ns\n"
STEP = "capture  device_index  step  phase  graph  start_ns  end_ns  idle_launch_ns\n"


def _case(count: int, took_ns: int, every_ns: int, step: str = "", idle_ns: float = 1e12, kind: str = "kernel") -> dict[str, str]:
    """So many kernels, each so long, one begun every so often; where `step` gives phase and graph, within a step."""
    lines = (f"c  0  {'0' if step else '-'}  {kind}  {n * every_ns}  {took_ns}" for n in range(count))
    tables = {"captures": "capture\nc", "kernels": KERNELS + "\n".join(lines)}
    return tables | ({"capture_steps": f"{STEP}c  0  0  {step}  0  {count * every_ns}  {idle_ns}"} if step else {})


STEPS = STEP.replace("\n", "  prefill_tokens  decode_tokens\n") + "c  0  0  prefill  none  0  5e6  1e12  1024  0\nc  0  1  decode  full  0  10e6  0  0  256"
LARGE = _case(101, 10_000, 50_000, "prefill  none") | {"capture_steps": STEPS}
LONE = _case(101, 10_000, 50_000, "decode  none")
LONE["capture_steps"] += "\nc  0  1  decode  full  0  76e6  0"        # beside a device graph of 76 ms


RULE = Rule(
    id="kernel.launch_bound",
    question="Does the device wait for the host to launch the next of many short kernels?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("capture_steps", (), CAPTURE, optional=("capture", "step", "device_index", "phase", "graph", "start_ns", "end_ns", "idle_launch_ns", "prefill_tokens", "decode_tokens")),
           Need("kernels", ("start_ns", "duration_ns", "kind"), CAPTURE, optional=("capture", "step", "device_index"))),
    evidence=f"""
        WITH g AS (SELECT capture, step, device_index, kind, start_ns, duration_ns,
                          start_ns - max(start_ns + duration_ns) OVER (PARTITION BY capture, device_index ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap_ns
                   FROM kernels WHERE start_ns IS NOT NULL AND kind IN ('kernel', 'memcpy', 'memset')),
             i AS (SELECT capture, step, device_index, count(*) FILTER (kind IN ('kernel')) AS kernels_count, sum(duration_ns) FILTER (kind IN ('kernel')) AS kernels_ns,
                          coalesce(sum(gap_ns) FILTER (gap_ns BETWEEN 0 AND {LONG.value}), 0) AS short_ns, max(start_ns + duration_ns) - min(start_ns) AS span_ns
                   FROM g GROUP BY capture, step, device_index),
             p AS (SELECT phase, sum(kernels_count) AS kernels_count, sum(kernels_ns) AS kernels_ns, sum(s.end_ns - s.start_ns) AS span_ns,
                          least(sum(short_ns), sum(idle_launch_ns)) AS launch_ns, max(prefill_tokens + decode_tokens) AS tokens
                   FROM i JOIN capture_steps s USING (capture, step, device_index) WHERE graph IS DISTINCT FROM 'full' GROUP BY phase
                   UNION ALL
                   SELECT NULL, sum(kernels_count), sum(kernels_ns), sum(span_ns), sum(short_ns), NULL FROM i ANTI JOIN capture_steps USING (capture)),
             w AS (SELECT * FROM p WHERE kernels_count >= {LEAST.value} ORDER BY launch_ns / span_ns DESC LIMIT 1)
        SELECT (SELECT coalesce(phase, 'the capture') FROM w) AS phase, (SELECT kernels_count FROM w) AS kernels_count, (SELECT kernels_ns FROM w) AS kernels_ns,
               (SELECT span_ns FROM w) AS span_ns, (SELECT launch_ns FROM w) AS launch_ns,
               (SELECT coalesce(nullif((SELECT sum(end_ns - start_ns) FROM capture_steps WHERE w.phase IS NOT NULL), 0), span_ns) FROM w) AS steps_ns,
               (SELECT tokens FROM w) AS step_tokens, max(prefill_tokens + decode_tokens) AS graph_tokens, count(*) AS graph_steps_count
        FROM capture_steps WHERE graph IN ('full', 'piecewise')
    """,
    judge=judge,
    limits=(SHARE, LEAST, LONG, WORTH),
    moves=(Move("device_graphs", "set", "seconds at start-up for each captured size, and memory for them"),
           Move("largest_device_graph", "set", "a longer start and memory for each further size; prompts of other lengths are padded")),
    falsified_by="a capture after the move shows the device waiting as long, or the steps take as long",
    explained_by=("config.eager_mode",),
    cases=(
        Case("a step of short kernels", "found", _case(101, 10_000, 50_000, "decode  none"),
             says="decode: 101 kernels of 10 µs on average, and in 79% of 5.0 ms the device waits for the host to launch the next"),
        Case("a lone step among longer ones", "clear", LONE, says="but that is 4.9% of the captured steps' time"),
        Case("without steps", "found", _case(101, 10_000, 50_000), says="the capture: 101 kernels of 10 µs on average, and in 80% of 5.0 ms"),
        Case("as many kernels as it takes, gaps as long as counted", "found", _case(100, 1_000_000, 2_000_000), says="in 50% of 199 ms"),
        Case("fewer kernels", "not_applicable", _case(99, 10_000, 50_000), says="no 100 kernels"),
        Case("longer gaps are other work", "clear", _case(101, 1_000_000, 2_100_000), says="in 0% of"),
        Case("few of the gaps are launches", "clear", _case(101, 10_000, 50_000, "prefill  none", 1e6), says="prefill: 101 kernels of 10 µs on average, and in 20% of"),
        Case("the device is busy", "clear", _case(101, 49_000, 50_000), says="in 2.0% of"),
        Case("larger than what is captured", "found", LARGE, says="other steps run as device graphs, of up to 256 tokens, and these have 1,024"),
        Case("a device graph", "clear", _case(101, 10_000, 50_000, "decode  full"), says="one launch starts"),
        Case("copies are not kernels", "not_applicable", _case(101, 10_000, 50_000, kind="memcpy")),
        Case("a table of sums has no times", "blind", {"captures": "capture\nc", "kernels": KERNELS + "c  -  -  kernel  -  9e6"}, says="kernels.start_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
