"""The device waits for the engine core: scheduling, updating and handing over take a large part of each step.

Looks like
    Steps are short, and much of each is not the forward pass: schedule(), update(), the gap between steps, or the
    way to the worker and back. A faster device would change little.

Why it costs
    Without overlap the device stands still while the engine core prepares the next step.

Not this when
    Host time is a small share of the step, or so short that nobody could feel it (a tiny step of a tiny model), or
    the engine schedules the next step while the device works: then host time is not waited for.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import MS_NS, duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

SHARE = Limit(0.4, "ratio", "what public reports of host-bound decoding show: a device 60 % busy (docs/definitions.md, source S3)")
EACH = Limit(1 * MS_NS, "ns", "chosen: under 1 ms a step, host time adds less to ITL than a stream can show")
OVERLAP = Limit(1.1, "ratio", "chosen: steps that do not overlap add up to the time they span at most; a tenth for clock edges")

PARTS = (("schedule_ns", "schedule()"), ("update_ns", "update()"), ("host_gap_ns", "the gap between steps"),
         ("handover_ns", "the way to the worker and back"))  # fmt: skip


def judge(row: Row) -> Verdict:
    steps, busy_ns = row.number("steps_count"), row.number("steps_ns") + row.number("host_gap_ns")
    if row.number("steps_ns") > OVERLAP.value * row.number("span_ns"):
        return not_applicable("steps overlap: the next one is scheduled while the device works")
    host_ns = sum(row[column] or 0 for column, _ in PARTS)
    ratio = host_ns / busy_ns
    each = f"{percent(ratio)} of the step time, {duration(host_ns / steps)} a step, was the engine core's, not the device's"
    if ratio < SHARE.value or host_ns < EACH.value * steps:
        return clear(each)
    part_ns, part = max((row[column] or 0, name) for column, name in PARTS)
    seen = "" if row["handover_ns"] is not None else ", so this is the least it can be"
    return found(
        f"{each}; most of it {part} ({duration(part_ns / steps)}); "
        f"the worker's own time was seen in {percent(row.number('worker_steps_count') / steps)} of the steps{seen}",
        Gain("output_tokens_per_s", 0.0, ratio / max(1 - ratio, 1 / steps), "end_to_end"),
        {"async_scheduling": 1.0, "reserved_cpu_cores": 2.0, "engine_replicas": 2.0},
    )


HEAD = """repeat  process  start_ns  end_ns  schedule_ns  update_ns  execute_ns  host_gap_ns  worker_ns
          """


def _steps(*lines: str) -> dict[str, str]:
    return {"steps": HEAD + "\n".join(lines)}


RULE = Rule(
    id="host.engine_core_busy",
    question="Does the device wait for the engine core?",
    needs=(Need("steps", ("process", "start_ns", "end_ns", "schedule_ns", "update_ns", "execute_ns"),
                "run the engine with the probe: its engine core writes the steps", optional=("host_gap_ns", "idle_ns", "worker_ns")),),
    evidence="""
        WITH p AS (SELECT process, max(end_ns) - min(start_ns) - coalesce(sum(idle_ns), 0) AS span_ns
                   FROM steps GROUP BY process)
        SELECT count(*)                                   AS steps_count,
               (SELECT sum(span_ns) FROM p)               AS span_ns,
               sum(end_ns - start_ns)                     AS steps_ns,
               sum(schedule_ns)                           AS schedule_ns,
               sum(update_ns)                             AS update_ns,
               sum(greatest(coalesce(host_gap_ns, 0), 0)) AS host_gap_ns,
               -- the probe may sample the workers: the mean of what was seen stands for the rest
               avg(greatest(execute_ns - worker_ns, 0)) FILTER (worker_ns IS NOT NULL) * count(*) AS handover_ns,
               avg(worker_ns) * count(*)                  AS worker_ns,
               count(worker_ns)                           AS worker_steps_count
        FROM steps
    """,
    judge=judge,
    limits=(SHARE, EACH, OVERLAP),
    moves=(Move("async_scheduling", "set", "a finished request is noticed a step later"),
           Move("reserved_cpu_cores", "raise", "fewer cores for the model"),
           Move("engine_replicas", "raise", "another copy of the weights, and a device or cores for it")),
    falsified_by="the host's share falls after the move and output_tokens_per_s does not rise",
    explained_by=(),
    cases=(
        Case("four tenths are the host's", "found",
             _steps("1  core-1  0  4e6  1e6  0.5e6  2.5e6  -  2.5e6", "1  core-1  5e6  9e6  1e6  0.5e6  2.5e6  1e6  2.5e6",
                    "1  core-2  0  1e6  0  0  1e6  -  1e6"),
             says="40% of the step time, 1.3 ms a step, was the engine core's, not the device's; most of it schedule()"),
        Case("the way to the worker is long", "found", _steps("1  core-1  0  4e6  0  0  4e6  -  1e6"), says="and back (3.0 ms)"),
        Case("the worker is seen in one step of four", "found",
             _steps("1  core-1  0  4e6  0  0  4e6  -  2e6", "1  core-1  4e6  8e6  0  0  4e6  0  -", "1  core-1  8e6  12e6  0  0  4e6  0  -",
                    "1  core-1  12e6  16e6  0  0  4e6  0  -"), says="seen in 25% of the steps"),
        Case("the worker is not visible", "found", _steps("1  core-1  0  4e6  3e6  0  1e6  -  -"), says="the least it can be"),
        Case("a tiny step of a tiny model", "clear", _steps("1  core-1  0  1.5e6  0.9e6  0  0.6e6  -  0.6e6"), says="900 µs a step"),
        Case("much host time, but longer steps", "clear", _steps("1  core-1  0  9e6  2e6  1e6  6e6  -  6e6"), says="33% of"),
        Case("scheduled ahead", "not_applicable", _steps("9  core-1  0  4e6  3e6  0  1e6  -  1e6"), says="overlap"),
        Case("the step is not split", "blind", _steps("9  core-1  0  4e6  -  -  -  -  -"), says="schedule_ns"),
    ),
)  # fmt: skip
