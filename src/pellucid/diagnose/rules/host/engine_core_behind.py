"""The engine core plans the next step while the device works, and still the device waits for it.

Looks like
    Steps overlap, device graphs leave little to launch, and yet the device is idle for a good part of each decode step,
    while schedule() and update() take a good part of it on the host. Hundreds of requests run at once.

Why it costs
    Planning ahead hides the host's time as long as it is shorter than the device's. Beyond that every request more makes
    the step longer on the host, and a faster kernel changes nothing.

Not this when
    The device is busy, or what it waits for is something else: launches one by one (`kernel.launch_bound`), another
    device. Where steps do not overlap, `host.engine_core_busy` asks the same.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration, percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

CAPTURE = "capture kernels: pellucid profile, with the probe in the engine"
STEPS = "run the engine with the probe: its engine core writes the steps"
IDLE = Limit(0.25, "ratio", "chosen: less is the start and end of a step; 0.43 was seen with 640 requests on an H200 (docs/definitions.md, source K7)")
OWN = Limit(0.4, "ratio", "chosen: of a step; 0.57 was seen there, and 0.22 at most in five recordings whose device was busy or waited for something else (source K7)")
LEAST = Limit(5, "steps", "chosen: the first captured step is longer than the others")
OVERLAP = Limit(1.1, "ratio", "chosen, as in host.engine_core_busy: steps that do not overlap add up to the time they span")


def judge(row: Row) -> Verdict:
    if row.number("steps_count") < LEAST.value:
        return not_applicable("no decode steps that were both captured and recorded")
    span = row.number("span_ns")      # medians: the last captured step has the profiler's end in it
    if row.number("took_ns") <= OVERLAP.value * span:
        return not_applicable("steps do not overlap: host.engine_core_busy judges them")
    idle, own = 1 - row.number("busy_ns") / span, row.number("own_ns") / span
    says = (f"decode: the device is idle in {percent(max(0.0, idle))} of {duration(span)} a step, with {row.number('running_count'):.0f} requests; "
            f"schedule() and update() take {percent(own)} of it on the host, though the next step is planned while the device works")  # fmt: skip
    if idle < IDLE.value or own < OWN.value:
        return clear(says)
    return found(says, Gain("itl_mean_ns", 0.0, idle, "end_to_end"), {"engine_replicas": 2.0, "reserved_cpu_cores": 2.0})


STEP = "step  process  start_ns  end_ns  schedule_ns  update_ns  running_count\n"
CAPTURED = "capture  step  phase  busy_ns\n"


def _case(busy: float, own: float, ahead: float = 20e6, phase: str = "decode", count: int = 6) -> dict[str, str]:
    """Steps that end every 10 ms."""
    steps = (f"{n}  core-1  {n * 10e6 - ahead}  {n * 10e6}  {own / 2}  {own / 2}  640" for n in range(count + 1))
    captured = (f"c  {n}  {phase}  {busy}" for n in range(1, count + 1))
    return {"captures": "capture\nc", "steps": STEP + "\n".join(steps), "capture_steps": CAPTURED + "\n".join(captured)}


RULE = Rule(
    id="host.engine_core_behind",
    question="Does the device wait for the engine core although it plans ahead?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("capture_steps", ("step", "busy_ns", "phase"), CAPTURE, optional=("capture", "dp_rank")),
           Need("steps", (), STEPS, optional=("process", "step", "start_ns", "end_ns", "schedule_ns", "update_ns", "running_count", "dp_rank"))),
    # The first captured step is left out: starting the profiler is in it. Of several workers the mean.
    evidence="""
        WITH s AS (SELECT dp_rank, step, end_ns - start_ns AS took_ns, schedule_ns + update_ns AS own_ns, running_count,
                          end_ns - lag(end_ns) OVER (PARTITION BY process ORDER BY step) AS span_ns,
                          step - lag(step) OVER (PARTITION BY process ORDER BY step) AS stride FROM steps),
             c AS (SELECT capture, dp_rank, step, any_value(phase) AS phase, avg(busy_ns) AS busy_ns FROM capture_steps WHERE step IS NOT NULL GROUP BY ALL),
             n AS (SELECT *, row_number() OVER (PARTITION BY capture, dp_rank ORDER BY step) AS place FROM c)
        SELECT count(*) AS steps_count, median(span_ns) AS span_ns, median(took_ns) AS took_ns, median(busy_ns) AS busy_ns, median(own_ns) AS own_ns,
               coalesce(avg(running_count), 0) AS running_count
        FROM n JOIN s ON n.step = s.step AND n.dp_rank IS NOT DISTINCT FROM s.dp_rank WHERE phase IN ('decode') AND place > 1 AND stride = 1
    """,
    judge=judge,
    limits=(IDLE, OWN, LEAST, OVERLAP),
    moves=(Move("engine_replicas", "raise", "another copy of the weights, and a device or cores for it"),
           Move("reserved_cpu_cores", "raise", "fewer cores for the model")),
    falsified_by="a capture after the move shows the device idle for as long in each decode step",
    explained_by=("config.eager_mode", "kernel.launch_bound"),
    cases=(
        Case("640 requests", "found", _case(6e6, 5e6), says="decode: the device is idle in 40% of 10 ms a step, with 640 requests; schedule() and update() take 50% of it"),
        Case("as idle as counts", "found", _case(7.5e6, 4e6)),
        Case("a busier device", "clear", _case(7.6e6, 4e6), says="idle in 24%"),
        Case("the host does little", "clear", _case(6e6, 3.9e6), says="take 39% of it"),
        Case("more busy than long", "clear", _case(11e6, 5e6), says="idle in 0%"),
        Case("steps that do not overlap", "not_applicable", _case(6e6, 5e6, ahead=11e6), says="host.engine_core_busy"),
        Case("steps that hardly overlap", "found", _case(6e6, 5e6, ahead=11.1e6)),
        Case("prompts", "not_applicable", _case(6e6, 5e6, phase="prefill"), says="no decode steps"),
        Case("as few as can be judged", "found", _case(6e6, 5e6, count=6)),
        Case("too few", "not_applicable", _case(6e6, 5e6, count=5)),
        Case("no capture", "not_applicable", {"captures": "capture\n", "capture_steps": CAPTURED, "steps": STEP + "1  core-1  0  1  1  1  1"}),
        Case("a capture without device times", "blind", {"captures": "capture\nc", "capture_steps": CAPTURED + "c  1  decode  -"}, says="busy_ns"),
        Case("a trace without a run", "not_applicable", {"captures": "capture\nc", "capture_steps": CAPTURED + "c  1  decode  6e6"}, says="both captured and recorded"),
    ),
    asked_of="captures",
)  # fmt: skip
