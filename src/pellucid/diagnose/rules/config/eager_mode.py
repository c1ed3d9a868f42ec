"""Decode steps run without device graphs, and the device waits for their kernels to be launched one by one.

Looks like
    The engine was started so that it captures no device graphs. In decode steps, hundreds of kernels are launched each by
    itself, and the device has gaps between them.

Why it costs
    A decode step has as many kernels as one with a long prompt, and each does little. Launched one by one they take the
    host longer than the device. As a device graph they are one launch.

Not this when
    Steps with prompts run without: they are larger than what is captured, and long enough. Nor where launches keep ahead of
    the device all the same, as with large models and batches; nor where the engine has no accelerator.
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

CAPTURE = "capture kernels: pellucid profile, or load a trace that has launches"
STEPS = Limit(3, "steps", "chosen: the first step after a pause runs slower, and of three the others outweigh it")
MOST = Limit(0.5, "ratio", "chosen: a few steps of a size that is not captured are no mode, and cost little")
WAIT = Limit(0.1, "ratio", "chosen: if half of it is the profiler's, a twentieth is left; captured steps recorded so far wait for 0.04 and less (docs/definitions.md, source D1)")
SAID = {None: "", 1: "; the configuration asks for it", 0: "; the configuration does not ask for it: their batches may be above the captured sizes"}
ASKS = "max((lower(json_extract_string({}, '$.enforce_eager')) IN ('true', '1'))::INT)"


def judge(row: Row) -> Verdict:
    steps, eager = row.number("steps_count"), row.number("eager_steps_count")
    if steps < STEPS.value:
        return not_applicable(f"{steps:.0f} decode steps of a device whose launches are visible; it takes {STEPS.value:.0f} to judge")
    says = f"{eager:.0f} of {steps:.0f} decode steps ran without a device graph"
    if eager / steps < MOST.value:
        return clear(says)
    share = row.number("launch_ns") / row.number("took_ns")
    says += f", in which the device waited for launches in {percent(share)} of {duration(row.number('took_ns') / eager)}"
    if share < WAIT.value:
        return clear(f"{says}: they keep ahead of it")
    asked = row["asked_count"]
    return found(f"{says}{SAID[None if asked is None else int(asked)]} (a profiler makes the waits longer than they are without)",
                 Gain("itl_mean_ns", 0.0, share, "end_to_end"), {} if asked == 0 else {"device_graphs": 1.0})  # fmt: skip


STEP = "repeat  capture  device_index  phase  graph  start_ns  end_ns  idle_launch_ns\n"


def _case(*steps: str, log: str = "", config: str = "") -> dict[str, str]:
    """Repeated steps of 20 ms: how many, device, phase, graph and idle time; what the log and the engine itself say."""
    lines = ("{}  c  {}  {}  {}  0  20e6  {}".format(*s.split()) for s in steps)
    tables = {"captures": "capture\nc", "capture_steps": STEP + "\n".join(lines)}
    tables |= {"log_events": f"arguments_json\n{log}"} if log else {}
    return tables | ({"sources": f"config_json\n{config}"} if config else {})


RULE = Rule(
    id="config.eager_mode",
    question="Do decode steps run without device graphs, while the device waits for launches?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("capture_steps", ("capture", "graph", "start_ns", "end_ns"), CAPTURE, optional=("device_index", "phase", "idle_launch_ns"), fact="worker.captures"),
           Need("log_events", (), "load the engine's log", optional=("arguments_json",)),
           Need("sources", (), "run the engine with the probe", optional=("config_json",))),
    evidence=f"""
        WITH d AS (SELECT graph, end_ns - start_ns AS took_ns, idle_launch_ns FROM capture_steps
                   WHERE phase IN ('decode') AND graph IS NOT NULL AND device_index IS NOT NULL)
        SELECT count(*) AS steps_count,
               count(*) FILTER (graph IN ('none')) AS eager_steps_count,
               sum(took_ns) FILTER (graph IN ('none')) AS took_ns,
               sum(idle_launch_ns) FILTER (graph IN ('none')) AS launch_ns,
               coalesce((SELECT {ASKS.format("config_json")} FROM sources), (SELECT {ASKS.format("arguments_json")} FROM log_events)) AS asked_count
        FROM d
    """,
    judge=judge,
    limits=(STEPS, MOST, WAIT),
    moves=(Move("device_graphs", "set", "seconds at start-up for each captured size, and memory for them"),),
    falsified_by="a capture after the move shows decode steps as device graphs, and they take as long",
    explained_by=(),
    cases=(
        Case("the log says so", "found", _case("4 0 decode none 5e6", log='{"enforce_eager": true}'),
             says="4 of 4 decode steps ran without a device graph, in which the device waited for launches in 25% of 20 ms; the configuration asks for it"),
        Case("the engine says so", "found", _case("3 0 decode none 5e6", log='{"enforce_eager": false}', config='{"enforce_eager": "True"}'), says="asks for it"),
        Case("nobody says why", "found", _case("2 0 decode none 2e6", "2 0 decode full 0"), says="2 of 4 decode steps ran without a device graph, in which the device waited for launches in 10% of 20 ms (a"),
        Case("a few steps of another size", "clear", _case("1 0 decode none 9e6", "9 0 decode full 0"), says="1 of 10 decode steps ran without a device graph"),
        Case("launches keep ahead", "clear", _case("4 0 decode none 1e6", log='{"enforce_eager": true}'), says="in 5.0% of 20 ms: they keep ahead"),
        Case("steps with prompts", "not_applicable", _case("2 0 decode none 9e6", "9 0 mixed none 9e6"), says="2 decode steps of a device whose launches are visible; it takes 3"),
        Case("no accelerator", "not_applicable", _case("9 - decode none 9e6"), says="0 decode steps of a device"),
        Case("launches are not visible", "blind", _case("9 0 decode - -"), says="capture_steps.graph"),
    ),
    asked_of="captures",
)  # fmt: skip
