"""Attention runs on kernels of an older generation than the device is made for.

Looks like
    Prompts are computed by attention kernels that were written for an earlier device. They run, at the speed that their
    instructions allow: the newer matrix instructions and copy engines of this one lie idle.

Why it costs
    A prompt's attention is bound by arithmetic, and grows with the square of its length. A generation made for the device
    was measured to be up to twice as fast, or more, on the same one.

Not this when
    Requests decode: their attention waits for memory, and generations differ little, unless it is far from that roof.
    Nor where attention takes little of the time, or no generation is known to be made for the device. In a trace without
    steps it is not known what model ran: an image model's attention counts like a language model's.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.catalog.kernels.attention import generations
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
WORTH = Limit(0.02, "ratio", "chosen: less of a phase than a fiftieth is lost between two runs of the same load")
DECODE = Limit(0.6, "ratio", "measured: the fitting generation decoded at 0.59 to 0.68 of the memory's roof on an H200 (docs/definitions.md, source K5)")
METRICS = {"prefill": "ttft_mean_ns", "mixed": "ttft_mean_ns", "decode": "itl_mean_ns"}
# Compute capability, detail of a kernel, and how many times as fast the newer generation is at most: 1 is that one.
LISTED = [(c, d, t) for c, g in generations().items() for d, t in (*((d, 1.0) for d in g.made_for), *((o.detail, o.high_times) for o in g.older))]


def judge(row: Row) -> Verdict:
    if row["attention_ns"] is None:
        return not_applicable("no attention kernel in the captured steps")
    if row["compute_capability"] is None:
        if row["device_name"] is None:
            return blind("captures.device_name and compute_capability: the trace does not say what it ran on", "load a trace that names its device")
        return not_applicable(f"{row.text('device_name')} has no compute capability, by which generations of attention kernels are told")
    capability = row.text("compute_capability")
    of = generations().get(capability)
    if of is None:
        return not_applicable(f"no generation of attention kernels is known to be made for compute capability {capability}")
    if row["times_ratio"] is None:
        return not_applicable(f"attention kernels of no generation that is known ({row['detail'] or 'their names do not tell'})")
    share, gain, detail = row.number("attention_ns") / row.number("phase_ns"), row.number("gain_ratio"), row.text("detail")
    phase = str(row["phase"] or "")
    says = f"{phase or 'outside of steps, of a model that is not known'}: attention ({detail}) takes {percent(share)} of the time"
    older = of.older_of(detail)
    if older is None:
        return clear(f"{says} and is made for compute capability {capability}: nothing to gain by another generation")
    says += f"; {of.newer}, made for compute capability {capability}, was seen {older.low_times:.1f} to {older.high_times:.1f} times as fast for prompts"
    says += (", and here the memory's roof is far away" if gain else "; a decode waits for memory instead") if phase == "decode" else ""
    if share * gain < WORTH.value:
        return clear(f"{says}: next to nothing to gain")
    low = 0.0 if phase == "decode" else min(gain, 1 - 1 / older.low_times)
    metric = METRICS.get(phase)
    return found(says, Gain(metric or "e2e_mean_ns", share * low, share * gain, "end_to_end" if metric else "local"), {older.knob: older.target})


HEAD, REST = "capture  phase  kind  class  detail  duration_ns  roof_ns\n", "c  prefill  kernel  gemm  nvjet  910  900"


def _case(*kernels: str, device: str = "H200  9.0", end_ns: int = 1000) -> dict[str, str]:
    return {"captures": f"capture  device_name  compute_capability\nc  {device}", "kernels": HEAD + "\n".join(kernels),
            "capture_steps": f"capture  phase  start_ns  end_ns\nc  prefill  0  {end_ns}\nc  decode  0  1000"}  # fmt: skip


RULE = Rule(
    id="kernel.attention_behind_its_gpu",
    question="Does attention run on kernels of an older generation than the device is made for?",
    needs=(Need("captures", ("capture",), CAPTURE, optional=("device_name", "compute_capability")),
           Need("kernels", ("capture", "class", "duration_ns", "kind"), CAPTURE, optional=("phase", "detail", "roof_ns", "count")),
           Need("capture_steps", (), CAPTURE, optional=("capture", "phase", "start_ns", "end_ns", "idle_before_ns", "busy_ns", "prefill_tokens", "decode_tokens"))),
    evidence=f"""
        WITH listed(compute_capability, detail, times) AS (VALUES {", ".join(f"('{c}', '{d}', {t})" for c, d, t in LISTED)}),
             p AS (SELECT phase, sum(greatest(kernels_ns, step_ns)) AS phase_ns FROM capture_phases GROUP BY phase),
             a AS (SELECT any_value(device_name) AS device_name, compute_capability, phase, detail, sum(duration_ns) AS attention_ns,
                          sum(roof_ns) / sum(duration_ns) FILTER (roof_ns IS NOT NULL) AS near
                   FROM kernels JOIN captures USING (capture) WHERE class IN ('attention') AND kind IN ('kernel') GROUP BY compute_capability, phase, detail),
             g AS (SELECT a.*, phase_ns, times,
                          CASE WHEN times IS NOT NULL THEN least(1 - 1 / times, CASE a.phase WHEN 'decode' THEN greatest(0, 1 - coalesce(near / {DECODE.value}, 1)) ELSE 1 - coalesce(near, 0) END) END AS gain
                   FROM a LEFT JOIN listed USING (compute_capability, detail) JOIN p ON a.phase IS NOT DISTINCT FROM p.phase),
             b AS (SELECT * FROM g ORDER BY gain IS NULL, least(gain * attention_ns / phase_ns / {WORTH.value}, 1) DESC, gain * attention_ns DESC, attention_ns DESC LIMIT 1)
        SELECT phase, detail, device_name, compute_capability, attention_ns, phase_ns, near AS near_ratio, times::DOUBLE AS times_ratio, gain AS gain_ratio FROM (SELECT 1) LEFT JOIN b ON true
    """,
    judge=judge,
    limits=(WORTH, DECODE), explained_by=("host.engine_core_behind",), asked_of="captures", views=("capture_phases",),
    moves=(Move("flash_attention_version", "set", "heads, masks or cache formats that it lacks fall back or are refused"), Move("flash_attention_backend", "set", "heads, masks or cache formats that it does not have are refused")),
    falsified_by="a capture after the move shows attention of the newer generation with as much of the phase's time",
    cases=(
        Case("second generation on Hopper", "found", _case("c  prefill  kernel  attention  fa2  90  -", REST),
             says="prefill: attention (fa2) takes 9.0% of the time; FlashAttention 3, made for compute capability 9.0, was seen 1.2 to 1.9 times as fast for prompts"),
        Case("a vision model", "found", {**_case("c  -  kernel  attention  fa2  10  -", "c  -  kernel  gemm  -  90  -"), "capture_steps": "capture\n"}, says="outside of steps, of a model that is not known: attention (fa2) takes 10% of the time"),
        Case("generic on Blackwell", "found", _case("c  mixed  kernel  attention  triton_unified  90  -", REST, device="B200  10.0"), says="FlashAttention 4, made for compute capability 10.0, was seen 1.0 to 2.7"),
        Case("the generation of the device", "clear", _case("c  prefill  kernel  attention  fa3  900  -", "c  prefill  kernel  attention  fa3_metadata  2000  -"), says="attention (fa3) takes 31% of the time and is made for compute capability 9.0: nothing to gain"),
        Case("of a step that mostly waits", "clear", _case("c  prefill  kernel  attention  fa2  90  -", REST, end_ns=3000), says="takes 3.0% of the time; FlashAttention 3"),
        Case("near its roof", "clear", _case("c  prefill  kernel  attention  fa2  90  80", REST), says="next to nothing to gain"),
        Case("decode", "clear", _case("c  decode  kernel  attention  fa2  900  -", "c  decode  kernel  attention  fa2_combine  90  -"), says="a decode waits for memory instead"),
        Case("decode near the roof", "clear", _case("c  decode  kernel  attention  fa2  1000  589"), says="next to nothing to gain"),
        Case("decode far from the roof", "found", _case("c  decode  kernel  attention  fa2  1000  587"), says="here the memory's roof is far away"),
        Case("no kernels but copies", "not_applicable", _case("c  prefill  memcpy  attention  fa2  90  -", REST), says="no attention kernel"),
        Case("an unknown generation", "not_applicable", _case("c  prefill  kernel  attention  -  90  -", REST), says="(their names do not tell)"),
        Case("consumer Blackwell is not judged", "not_applicable", _case("c  prefill  kernel  attention  fa2  90  -", REST, device="RTX5090  12.0"), says="known to be made for compute capability 12.0"),
        Case("no compute capability", "not_applicable", _case("c  prefill  kernel  attention  -  90  -", REST, device="MI300X  -"), says="MI300X has no"),
        Case("no device", "blind", _case("c  prefill  kernel  attention  fa2  90  -", REST, device="-  -"), says="does not say what it ran on"),
    ),
)  # fmt: skip
