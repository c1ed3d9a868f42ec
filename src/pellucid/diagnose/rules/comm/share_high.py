"""Moving data between devices, or waiting for the others to do so, takes much of the time.

Looks like
    Kernels of collectives, sums over all ranks or all-to-all of experts, run with no other kernel beside them for a fifth of
    a phase or more.

Why it costs
    A layer cannot go on before its collective is done, on any rank. Part of such a kernel's time moves data, the rest waits
    for the rank that comes last. The first needs faster links, fewer bytes or fewer ranks; the second needs ranks that take
    equally long, and no link makes it shorter.

Not this when
    Other kernels run beside them: then they cost nothing. Where the device waits for launches, collectives are little of
    the time. A table of sums does not tell what ran beside what, so there it is the share of all kernels.
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
SHARE = Limit(0.2, "ratio", "chosen: a fifth of the time is worth another number or placement of ranks; recorded decodes over several devices took 0.17 and 0.40 (docs/definitions.md, source D4)")
LEAST = Limit(100, "kernels", "chosen: fewer kernels are a test of single operators, and a first collective waits for all to start")
METRIC = {"prefill": "ttft_mean_ns", "decode": "itl_mean_ns", "mixed": "itl_mean_ns"}
BASIS = {"step": "with no other kernel beside them", "span": "with no other kernel beside them", "sum": "of all kernels (what ran beside them is not told)"}
WAITS = "regexp_matches(lower(name), 'notify|barrier|signal|wait|clean')"    # they move no data: they wait, or make ready


def judge(row: Row) -> Verdict:
    if row["phase"] is None:
        return not_applicable(f"no kernels that move data between devices, among {LEAST.value:.0f} or more")
    phase, share = row.text("phase"), row.number("exposed_ns") / row.number("whole_ns")
    ranks = f" over {row['ranks_count']:.0f} ranks" if row["ranks_count"] else ""
    says = (f"{phase}: kernels that move data between devices{ranks}, most of them {row.text('detail').replace('_', ' ')}, take {percent(share)} of "
            f"{duration(row.number('whole_ns'))} {BASIS[row.text('basis')]}")  # fmt: skip
    if share < SHARE.value:
        return clear(says)
    waits = "what of it is waiting for other ranks is not told"
    if row["waited_ns"] is not None:
        waits = f"at least {percent(row.number('waited_ns') / row.number('comm_ns'))} of it is waiting for other ranks or making ready, which no faster link shortens"
    return found(f"{says}; {waits}", Gain(METRIC.get(phase, "e2e_mean_ns"), 0.0, share, "end_to_end"), {})


HEAD = "repeat  capture  device_index  step  phase  kind  class  detail  name  layer  start_ns  duration_ns  count\n"
STEP = "capture  phase  start_ns  end_ns  comm_exposed_ns\n"


def _case(*kernels: str, exposed: str = "", kind: str = "kernel", fill: int = 98) -> dict[str, str]:
    """Kernels: class, detail, name, layer, start and duration, and products of no length; a decode step of 1 ms where `exposed` is given."""
    where = f"c  0  {'0  decode' if exposed else '-  -'}  {kind}"
    lines = [f"1  {where}  {'  '.join(k.split())}  1" for k in kernels] + [f"{fill}  {where}  gemm  -  g  -  {kernels[-1].split()[4]}  0  1"]
    tables = {"captures": "capture  ranks_count\nc  8", "kernels": HEAD + "\n".join(lines)}
    return tables | ({"capture_steps": f"{STEP}c  decode  0  1e6  {exposed}"} if exposed else {})


RULE = Rule(
    id="comm.share_high",
    question="Does moving data between devices, or waiting for the others, take much of the time?",
    needs=(Need("captures", ("capture",), CAPTURE, optional=("ranks_count",)),
           Need("capture_steps", (), CAPTURE, optional=("capture", "phase", "start_ns", "end_ns", "comm_exposed_ns")),
           Need("kernels", ("class", "duration_ns", "kind", "count"), CAPTURE, optional=("capture", "device_index", "step", "phase", "detail", "name", "grid", "layer", "start_ns"))),
    evidence=f"""
        WITH k AS (SELECT capture, device_index, step, class, detail, name, grid, layer, start_ns, duration_ns, count, (class IN ('comm'))::INT AS comm, basis,
                          coalesce(CASE basis WHEN 'step' THEN phase END, 'the capture') AS phase
                   FROM (SELECT *, CASE WHEN start_ns IS NULL THEN 'sum' WHEN capture IN (SELECT capture FROM capture_steps) THEN 'step' ELSE 'span' END AS basis
                         FROM kernels WHERE kind IN ('kernel', 'op') AND duration_ns IS NOT NULL)),
             t AS (SELECT basis, phase, coalesce(detail, 'other') AS detail, duration_ns,
                          CASE WHEN {WAITS} THEN duration_ns
                               WHEN layer IS NOT NULL THEN duration_ns - min(duration_ns) OVER (PARTITION BY capture, device_index, step, name, grid) END AS waited_ns
                   FROM k WHERE class IN ('comm')),
             u AS (SELECT basis, phase, detail, sum(duration_ns) AS detail_ns, sum(waited_ns) AS waited_ns FROM t GROUP BY basis, phase, detail),
             v AS (SELECT basis, phase, arg_max(detail, detail_ns) AS detail, sum(detail_ns) AS comm_ns, sum(waited_ns) AS waited_ns FROM u GROUP BY basis, phase),
             n AS (SELECT basis, phase, sum(count) AS kernels_count, sum(duration_ns) AS kernels_ns FROM k GROUP BY basis, phase),
             e AS (SELECT capture, device_index, unnest([start_ns, start_ns + duration_ns]) AS moment_ns, unnest([comm, -comm]) AS comm, unnest([1 - comm, comm - 1]) AS others
                   FROM k WHERE basis IN ('span')),
             o AS (SELECT sum(comm) OVER a AS comm_open, sum(others) OVER a AS others_open, lead(moment_ns) OVER a - moment_ns AS long_ns
                   FROM e WINDOW a AS (PARTITION BY capture, device_index ORDER BY moment_ns ROWS UNBOUNDED PRECEDING)),
             x AS (SELECT 'step' AS basis, coalesce(phase, 'the capture') AS phase, sum(comm_exposed_ns) AS exposed_ns, sum(end_ns - start_ns) AS whole_ns FROM capture_steps GROUP BY phase
                   UNION ALL SELECT 'span', 'the capture', sum(long_ns * sign(comm_open) * (1 - sign(others_open))), sum(long_ns) FROM o
                   UNION ALL SELECT basis, phase, comm_ns, kernels_ns FROM n JOIN v USING (basis, phase) WHERE basis IN ('sum')),
             w AS (SELECT * FROM v JOIN n USING (basis, phase) JOIN x USING (basis, phase) WHERE kernels_count >= {LEAST.value} ORDER BY exposed_ns / whole_ns DESC LIMIT 1)
        SELECT any_value(phase) AS phase, any_value(basis) AS basis, any_value(detail) AS detail, any_value(comm_ns) AS comm_ns, any_value(waited_ns) AS waited_ns,
               any_value(exposed_ns) AS exposed_ns, any_value(whole_ns) AS whole_ns, (SELECT max(ranks_count) FROM captures) AS ranks_count FROM w
    """,
    judge=judge,
    limits=(SHARE, LEAST),
    moves=(),
    falsified_by="a capture with fewer ranks, or with ranks that take equally long, shows steps as long",
    explained_by=("moe.rank_imbalance",),
    cases=(
        Case("ranks wait for each other", "found", _case("comm nccl_allreduce r 0 0 50e3", "comm nccl_allreduce r 1 3e5 150e3", exposed="2e5"),
             says="decode: kernels that move data between devices over 8 ranks, most of them nccl allreduce, take 20% of 1.0 ms with no other kernel beside them; at least 50% of it is waiting"),
        Case("beside products", "clear", _case("comm nccl_allreduce r 0 0 50e3", "comm nccl_allreduce r 1 3e5 150e3", exposed="199e3"), says="take 20% of 1.0 ms"),
        Case("without steps, half of it exposed", "found", _case("comm moe_all2all r - 0 100", "gemm - g - 50 150"), says="most of them moe all2all, take 25% of 200 ns with no other kernel beside them; what of it is waiting"),
        Case("without steps, hidden", "clear", _case("gemm - g - 0 100", "comm moe_all2all r - 0 99"), says="take 0% of"),
        Case("a table, and one kernel only waits", "found", _case("comm moe_all2all notify_dispatch - - 150", "comm moe_all2all dispatch - - 150", "gemm - g - - 700", fill=97),
             says="the capture: kernels that move data between devices over 8 ranks, most of them moe all2all, take 30% of 1.0 µs of all kernels (what ran beside them is not told); at least 50% of it is waiting"),
        Case("one device", "not_applicable", _case("gemm - g - 0 100", "gemm - g - 100 100"), says="no kernels that move"),
        Case("fewer kernels", "not_applicable", _case("comm moe_all2all r - 0 100", "gemm - g - 50 150", fill=97)),
        Case("copies between devices", "not_applicable", _case("comm memcpy_peer r - 0 100", "gemm - g - 50 150", kind="memcpy")),
        Case("no kernel has a time", "blind", {"captures": "capture\nc", "kernels": HEAD + "1  c  0  -  -  kernel  comm  moe_all2all  r  -  -  -  9"}, says="kernels.duration_ns"),
    ),
    asked_of="captures",
)  # fmt: skip
