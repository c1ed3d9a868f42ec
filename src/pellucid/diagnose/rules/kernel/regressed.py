"""A kernel takes several times as long as it took in earlier captures of the same run, for the same work.

Looks like
    In the last capture one kernel's mean time is three times what it was in the captures before: the same name and grid, in
    the same phase and, where known, for as many tokens a step. Other kernels take what they took.

Why it costs
    Its step became longer by the difference. Something changed beneath it: another configuration of the kernel, memory or
    caches shared with somebody else, clocks, a damaged device.

Not this when
    The work grew: attention reads more of the cache as contexts grow, transfers between devices wait for each other, and
    steps computed more tokens. Those are not compared. Without three captures before there is no past.
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

CAPTURE = "capture kernels: pellucid profile, several times while the engine runs"
TIMES = Limit(3.0, "ratio", "chosen: well above what clocks, and chance in ten executions, do to a mean")
SHARE = Limit(0.05, "ratio", "chosen: two thirds of a twentieth of the kernels' time is the least that is worth the search")
PAST = Limit(3, "captures", "chosen: the fewest of which a median leaves out an odd one")
LEAST = Limit(10, "kernels", "chosen: fewer executions of a name, and one slow first use decides its mean")
SAME = Limit(0.2, "ratio", "chosen: so much more work does not take three times as long")
METRIC = {"prefill": "ttft_mean_ns", "decode": "itl_mean_ns", "mixed": "itl_mean_ns"}


def judge(row: Row) -> Verdict:
    if row["name"] is None:
        return not_applicable(f"no kernel with {LEAST.value:.0f} executions in the last capture and in {PAST.value:.0f} before it, for the same work")
    mean, past, phase = row.number("mean_ns"), row.number("past_mean_ns"), row.text("phase")
    times, share = mean / past, row.number("kernel_ns") / row.number("phase_ns")
    says = (f"{phase}: {row.text('name')[:60]} takes {duration(mean)}, {times:.1f} times its median of {row.number('past_count'):.0f} "
            f"captures before, and is {percent(share)} of the kernels' time; the middle kernel takes {row.number('middle_times_ratio'):.1f} times its own")  # fmt: skip
    if times < TIMES.value or share < SHARE.value:
        return clear(says)
    return found(says, Gain(METRIC.get(phase, "e2e_mean_ns"), 0.0, share * (1 - past / mean), "end_to_end"), {})


CAPTURES = "capture  wall_start_ns  start_ns  rank\n"
STEP = "capture  step  phase  prefill_tokens  decode_tokens\n"
KERNEL = "repeat  capture  step  phase  kind  class  name  grid  duration_ns  count\n"


def _case(*means: str, tokens: str = "64 64 64 64", kernel: str = "moe_gemm", grid: str = "8,1,1", times: int = 10, kind: str = "kernel") -> dict[str, str]:
    """A capture for each text: mean time of the kernel in question, and of another; tokens of its steps."""
    kernels = [f"{times}  c{n}  0  decode  {kind}  {name}  {grid}  {mean}  1" for n, both in enumerate(means)
               for name, mean in zip((f"{kernel}  a", "gemm  b"), both.split(), strict=True)]  # fmt: skip
    return {"captures": CAPTURES + "\n".join(f"c{n}  {n}  -  0" for n in range(len(means))),
            "capture_steps": STEP + "\n".join(f"c{n}  0  decode  0  {t}" for n, t in enumerate(tokens.split())),
            "kernels": KERNEL + "\n".join(kernels)}  # fmt: skip


RULE = Rule(
    id="kernel.regressed",
    question="Does a kernel take several times as long as in earlier captures?",
    needs=(Need("captures", ("capture",), CAPTURE, optional=("wall_start_ns", "start_ns", "rank", "device_name")),
           Need("capture_steps", (), CAPTURE, optional=("capture", "step", "phase", "prefill_tokens", "decode_tokens")),
           Need("kernels", ("name", "class", "duration_ns", "kind", "count"), CAPTURE, optional=("capture", "step", "phase", "grid"))),
    evidence=f"""
        WITH c AS (SELECT capture, concat_ws(' ', rank, device_name) AS place, coalesce(wall_start_ns, start_ns) AS moment_ns FROM captures),
             l AS (SELECT arg_max(capture, moment_ns) AS capture FROM c GROUP BY place),
             b AS (SELECT capture, phase, median(prefill_tokens + decode_tokens) AS tokens FROM capture_steps GROUP BY capture, phase),
             n AS (SELECT capture, k.phase, name, grid, any_value(class) AS class, sum(count) AS executions, sum(duration_ns) AS kernel_ns,
                          sum(sum(duration_ns)) OVER (PARTITION BY capture, k.phase) AS phase_ns
                   FROM kernels k WHERE kind IN ('kernel', 'op') AND duration_ns IS NOT NULL GROUP BY capture, k.phase, name, grid),
             m AS (SELECT n.*, concat_ws(' ', place, coalesce(n.phase, '-'), coalesce(grid, '-'), name) AS same, kernel_ns / executions AS mean_ns, coalesce(tokens, 0) AS tokens
                   FROM n JOIN c USING (capture) LEFT JOIN b USING (capture, phase)
                   WHERE executions >= {LEAST.value} AND class NOT IN ('attention', 'comm') AND coalesce(grid, tokens::TEXT) IS NOT NULL),
             j AS (SELECT p.name, p.phase, p.mean_ns, p.kernel_ns, p.phase_ns, median(e.mean_ns) AS past_mean_ns, count(*) AS past_count
                   FROM (FROM m SEMI JOIN l USING (capture)) p JOIN (FROM m ANTI JOIN l USING (capture)) e USING (same)
                   WHERE e.tokens BETWEEN p.tokens * {1 - SAME.value} AND p.tokens * {1 + SAME.value} GROUP BY p.capture, same, p.name, p.phase, p.mean_ns, p.kernel_ns, p.phase_ns),
             w AS (SELECT j.*, median(mean_ns / past_mean_ns) OVER () AS middle_times_ratio FROM j WHERE past_count >= {PAST.value}
                   ORDER BY least(mean_ns / past_mean_ns / {TIMES.value}, kernel_ns / phase_ns / {SHARE.value}) DESC LIMIT 1)
        SELECT any_value(name) AS name, any_value(coalesce(phase, 'the capture')) AS phase, any_value(mean_ns) AS mean_ns, any_value(past_mean_ns) AS past_mean_ns,
               any_value(past_count) AS past_count, any_value(kernel_ns) AS kernel_ns, any_value(phase_ns) AS phase_ns, any_value(middle_times_ratio) AS middle_times_ratio FROM w
    """,
    judge=judge,
    limits=(TIMES, SHARE, PAST, LEAST, SAME),
    moves=(),
    falsified_by="the kernel's time in the next capture is what it was before, with nothing changed",
    explained_by=(),
    cases=(
        Case("four times as long", "found", _case("100 900", "110 900", "90 900", "400 900"),
             says="decode: a takes 400 ns, 4.0 times its median of 3 captures before, and is 31% of the kernels' time; the middle kernel takes 2.5 times its own"),
        Case("a fifth fewer tokens", "found", _case("100 900", "110 900", "90 900", "400 900", tokens="80 100 120 100")),
        Case("more tokens", "not_applicable", _case("100 900", "110 900", "90 900", "400 900", tokens="79 121 79 100")),
        Case("twice as long", "clear", _case("100 900", "110 900", "90 900", "200 900"), says="2.0 times"),
        Case("a small kernel", "clear", _case("1 99", "1 99", "1 99", "4 99"), says="3.9% of the kernels' time"),
        Case("two captures before", "not_applicable", _case("100 900", "100 900", "400 900"), says="in 3 before it"),
        Case("nine executions", "not_applicable", _case("100 900", "110 900", "90 900", "400 900", times=9)),
        Case("attention over longer contexts", "clear", _case("100 900", "110 900", "90 900", "400 900", kernel="attention"), says="b takes 900 ns, 1.0 times"),
        Case("copies of memory", "not_applicable", _case("100 900", "110 900", "90 900", "400 900", kind="memcpy")),
        Case("no kernel has a time", "blind", _case("- -"), says="kernels.duration_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
