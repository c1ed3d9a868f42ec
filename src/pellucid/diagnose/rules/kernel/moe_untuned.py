"""The experts' kernel runs with a default configuration, and is further from its roof than tuned ones are.

Looks like
    The engine's log says that it found no file of tuned configurations for these experts on this device, and the kernel of
    experts takes longer than the best configuration was seen to.

Why it costs
    Tile sizes and stages that fit one width of experts, number of tokens and device do not fit another. A default is a
    guess: 8 experts of width 14,336 took 24 to 38 % less on an H200 with their file (docs/definitions.md, source K8).

Not this when
    The kernel is as near its roof as tuned ones come. A default is often right: on an H200 it was at 0.89 of the memory's
    roof in a decode, and the best of 160 configurations at 0.90. A missing file alone is no finding. Nor is this for kernels
    that take no such file. Decodes and prompts are judged apart.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import percent
from pellucid.diagnose.rule import (
    Case,
    Gain,
    Limit,
    Move,
    Need,
    Row,
    Rule,
    Verdict,
    blind,
    clear,
    found,
    not_applicable,
)

CAPTURE = "capture kernels: pellucid profile, or load a trace"
LOG = "load the engine's log beside the trace: pellucid load TRACE LOG; into a recorded run: pellucid load LOG --run-folder RUN"
FEW = Limit(0.85, "ratio", "measured: the best configuration reached 0.86 to 0.90 of the memory's roof at 8 to 256 tokens on an H200 (docs/definitions.md, source K1)")
MANY = Limit(0.55, "ratio", "measured: the best configuration reached 0.56 of the arithmetic's roof at 8,192 tokens on an H200 (docs/definitions.md, source K1)")
PEAK = Limit(0.8, "ratio", "measured ceilings of an H200 are 0.82 and 0.88 of its data sheet (docs/definitions.md, source K6): so much less where only that is known")
WORTH = Limit(0.02, "ratio", "chosen: less of a phase than a fiftieth is lost between two runs of the same load; tuning bought 2 % of a decode's kernel (source K1)")
METRICS = {"prefill": "ttft_mean_ns", "mixed": "ttft_mean_ns", "decode": "itl_mean_ns"}


def judge(row: Row) -> Verdict:
    if row["experts_ns"] is None:
        return not_applicable("no kernel of experts that takes tuned configurations in the captured steps")
    if row["lines_count"] == 0:
        return blind("no log_events: without the engine's log it is not known which configuration the kernel of experts runs with", LOG)
    if row["tuned_count"]:
        return clear(f"the kernel of experts runs with a configuration tuned for it ({row.text('tuned_file')})")
    if row["default_count"] == 0:
        return not_applicable("the log says nothing of configurations of the experts' kernel")
    took, phase = row.number("experts_ns"), str(row["phase"] or "")
    share = took / row.number("phase_ns")
    says = f"{phase or 'outside of steps'}: the kernel of experts takes {percent(share)} of the time"
    if row["roof_ns"] is None:
        return not_applicable(f"{says}, but its work is not known, so neither is what tuning could gain")
    near, reach = row.number("roof_ns") / row.number("roofed_ns"), row.number("reach_ratio")
    says += f", at {percent(near)} of its roof; the best configuration found on an H200 came to {percent(reach)} with as many tokens a step"
    gain = share * max(0.0, 1 - near / reach)
    if gain < WORTH.value:
        return clear(f"{says}: next to nothing to gain, though no tuned one was found for it")
    metric = METRICS.get(phase)
    return found(f"{says}, and this one is untuned ({row.text('default_file')} is missing)", Gain(metric or "e2e_mean_ns", 0.0, gain, "end_to_end" if metric else "local"), {"tuned_moe_file": 1.0})


DEFAULT, TUNED = "moe_untuned  E=64.json", "moe_tuned  E=128.json"


def _case(near: float, *log: str, phase: str = "decode", tokens: int = 64, basis: str = "measured") -> dict[str, str]:
    """Experts for half of a phase at so much of their roof, and a phase that is near it."""
    return {"captures": "capture\nc", "log_events": "kind  subject\n" + "\n".join(log),
            "capture_steps": f"capture  phase  prefill_tokens  decode_tokens  start_ns  end_ns\nc  {phase}  {tokens - 1}  1  0  2000\nc  mixed  9000  0  0  2000",
            "kernels": "capture  phase  kind  class  detail  duration_ns  roof_ns  roof_basis\n"
                       f"c  {phase}  kernel  moe_gemm  triton_fused_moe  1000  {near * 1000:.0f}  {basis}\n"
                       "c  mixed  kernel  moe_gemm  triton_fused_moe  1000  900  measured\nc  mixed  kernel  moe_gemm  marlin  900  1  measured"}  # fmt: skip


RULE = Rule(
    id="kernel.moe_untuned",
    question="Does the kernel of experts run with a default configuration, and further from its roof than tuned ones?",
    needs=(Need("captures", ("capture",), CAPTURE),
           Need("kernels", ("class", "duration_ns", "kind"), CAPTURE, optional=("capture", "phase", "detail", "roof_ns", "roof_basis", "count")),
           Need("capture_steps", (), CAPTURE, optional=("capture", "phase", "start_ns", "end_ns", "idle_before_ns", "busy_ns", "prefill_tokens", "decode_tokens")),
           Need("log_events", (), LOG, optional=("kind", "subject"))),
    # What was reached fell from 256 tokens on to 0.68 at 1,024 (source K1): by 0.085 with each doubling.
    evidence=f"""
        WITH p AS (SELECT phase, sum(greatest(kernels_ns, step_ns)) AS phase_ns, sum(tokens) / sum(steps_count) AS tokens FROM capture_phases GROUP BY phase),
             e AS (SELECT phase, sum(duration_ns) AS experts_ns, sum(roof_ns) AS roof_ns, sum(duration_ns) FILTER (roof_ns IS NOT NULL) AS roofed_ns,
                          CASE split_part(mode(roof_basis), ',', 1) WHEN 'peak' THEN {PEAK.value} ELSE 1 END AS scale
                   FROM kernels WHERE detail IN ('triton_fused_moe') AND kind IN ('kernel') GROUP BY phase),
             r AS (SELECT e.*, p.* EXCLUDE (phase), scale * greatest({MANY.value}, least({FEW.value}, {FEW.value} - 0.085 * log2(coalesce(tokens, 8192) / 256))) AS reach
                   FROM e JOIN p ON e.phase IS NOT DISTINCT FROM p.phase),
             b AS (SELECT * FROM r ORDER BY greatest(0, 1 - roof_ns / roofed_ns / reach) * experts_ns / phase_ns DESC NULLS LAST, experts_ns DESC LIMIT 1),
             l AS (SELECT count(*) AS lines, count(*) FILTER (kind IN ('moe_tuned')) AS tuned, count(*) FILTER (kind IN ('moe_untuned')) AS missing,
                          max(subject) FILTER (kind IN ('moe_tuned')) AS tuned_file, max(subject) FILTER (kind IN ('moe_untuned')) AS default_file FROM log_events)
        SELECT phase, experts_ns, phase_ns, roof_ns, roofed_ns, reach AS reach_ratio, tokens AS step_tokens, lines AS lines_count, tuned AS tuned_count,
               missing AS default_count, coalesce(tuned_file, '') AS tuned_file, coalesce(default_file, '') AS default_file FROM l LEFT JOIN b ON true
    """,
    judge=judge,
    limits=(FEW, MANY, PEAK, WORTH), explained_by=("host.engine_core_behind",), asked_of="captures", views=("capture_phases",),
    moves=(Move("tuned_moe_file", "set", "the tuning takes the device for itself, and its file holds for this device and shape only"),),
    falsified_by="a capture after the move, with the file named in the log, shows the kernel with as much time at as many tokens",
    cases=(
        Case("a default far from its roof", "found", _case(0.4, DEFAULT), says="decode: the kernel of experts takes 50% of the time, at 40% of its roof; the best configuration found on an H200 came to 85% with as many tokens a step, and this one is untuned (E=64.json is missing)"),
        Case("a decode of 256 tokens", "found", _case(0.81, DEFAULT, tokens=256)),
        Case("nearer", "clear", _case(0.82, DEFAULT, tokens=256), says="next to nothing to gain"),
        Case("1,024 tokens", "found", _case(0.65, DEFAULT, tokens=1024), says="came to 68%"),
        Case("1,024 tokens, nearer", "clear", _case(0.66, DEFAULT, tokens=1024)),
        Case("a large prefill", "found", _case(0.52, DEFAULT, phase="prefill", tokens=8192), says="came to 55%"),
        Case("a large prefill, nearer", "clear", _case(0.53, DEFAULT, phase="prefill", tokens=8192)),
        Case("only the data sheet is known", "found", _case(0.65, DEFAULT, basis="peak"), says="came to 68%"),
        Case("nearer the data sheet", "clear", _case(0.66, DEFAULT, basis="peak"), says="came to 68%"),
        Case("as in a measured decode", "clear", _case(0.89, DEFAULT), says="next to nothing to gain"),
        Case("tuned", "clear", _case(0.4, TUNED, DEFAULT), says="runs with a configuration tuned for it (E=128.json)"),
        Case("a log without a word of it", "not_applicable", _case(0.4, "ready  -"), says="the log says nothing"),
        Case("no log", "blind", _case(0.4), says="without the engine's log"),
    ),
)  # fmt: skip
