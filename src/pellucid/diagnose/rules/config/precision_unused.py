"""Products bound by arithmetic run in a wider number format than the device multiplies fastest in.

Looks like
    In a phase, most often a prefill, much of the time goes to products of weights that are bound by arithmetic, in 16 or 32
    bits, on a device whose matrix units do narrower ones in half the time or less.

Why it costs
    Half the bits are twice the products in the same time, and half the bytes to move. What is not a product stays as long.

Not this when
    Products wait for memory, as in a small decode: then it is their bytes that count (kernel.bytes_at_roof). Nor where the
    device has nothing narrower that an engine can be set to, or is not known. Narrower numbers change answers: they have to
    be judged first. What converting to them costs is not known beforehand, so the gain begins at nothing.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.catalog.devices.gpus import Device, device_of, devices
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

CAPTURE = "capture kernels: pellucid profile, or load a trace; shapes need its operators, or --model with a config.json"
WORTH = Limit(0.05, "ratio", "chosen: other numbers mean judging answers anew, which less than a twentieth of a phase is not worth")
NARROWER = {"fp32": "bf16", "tf32": "bf16", "bf16": "fp8", "fp16": "fp8"}     # what an engine can be set to
KNOBS = {"bf16": "numbers_bf16", "fp8": "weights_fp8"}
METRICS = {"prefill": "ttft_mean_ns", "mixed": "ttft_mean_ns", "decode": "itl_mean_ns"}


def times(device: Device, wide: str, narrow: str) -> tuple[float, str] | None:
    """How many times as fast it multiplies in the narrower format, by measurement of both or by both peaks."""
    best = {m.quantity: m.high for m in sorted(device.entry.measured, key=lambda m: m.high)}
    measured = [best.get(f"{p}_flop_per_s") for p in (wide, narrow)]
    peaks = [device.peak_flop_per_s[p].value for p in (wide, narrow)]
    for (slow, fast), basis in ((measured, "measured"), (peaks, "by its data sheet")):
        if slow and fast:
            return fast / slow, basis
    return None


FASTER = [(" ".join(name.lower().split()), wide, narrow, *faster) for d in devices().values() for name in d.entry.driver_names
          for wide, narrow in NARROWER.items() if (faster := times(d, wide, narrow))]  # fmt: skip


def judge(row: Row) -> Verdict:
    if row["products_ns"] is None:
        return not_applicable("no products in the captured steps")
    if row["device_name"] is None:
        return blind("captures.device_name: the trace does not say what it ran on", "load a trace that names its device")
    device = row.text("device_name")
    if row["compute_ns"] is None:
        return not_applicable(f"no product whose work is known is bound by arithmetic on {device}" if device_of(device) else f"{device} is not in the catalogue")
    phase, share = str(row["phase"] or ""), row.number("compute_ns") / row.number("phase_ns")
    says = f"{phase or 'outside of steps'}: products in {row.text('precision')} that are bound by arithmetic take {percent(share)} of the time"
    if row["times_ratio"] is None:
        return clear(f"{says}; narrower than that {device} multiplies in nothing that an engine can be set to: nothing to gain there")
    narrower, faster = row.text("narrower"), row.number("times_ratio")
    says += f"; {device} multiplies {faster:.1f} times as fast in {narrower} ({row.text('basis')})"
    gain = share * (1 - 1 / faster)
    if gain < WORTH.value:
        return clear(f"{says}: too little to gain for other numbers")
    metric = METRICS.get(phase)
    return found(says, Gain(metric or "e2e_mean_ns", 0.0, gain, "end_to_end" if metric else "local"), {KNOBS[narrower]: 1.0})


def _case(*kernels: str, device: str = "NVIDIA H200", end_ns: int = 0) -> dict[str, str]:
    return {"captures": f"capture  device_name\nc  {device}", "capture_steps": f"capture  phase  start_ns  end_ns\nc  prefill  0  {end_ns}",
            "kernels": "capture  phase  kind  class  precision  bound  duration_ns\n" + "\n".join(f"c  prefill  {k}" for k in kernels)}  # fmt: skip


RULE = Rule(
    id="config.precision_unused",
    question="Do products bound by arithmetic run in a wider number format than the device multiplies fastest in?",
    needs=(Need("captures", ("capture",), CAPTURE, optional=("device_name",)),
           Need("kernels", ("class", "duration_ns", "kind"), CAPTURE, optional=("capture", "phase", "precision", "bound", "count")),
           Need("capture_steps", (), CAPTURE, optional=("capture", "phase", "start_ns", "end_ns", "idle_before_ns", "busy_ns", "prefill_tokens", "decode_tokens"))),
    evidence=f"""
        WITH faster(device, precision, narrower, times, basis) AS (VALUES {", ".join(str(f) for f in FASTER)}),
             p AS (SELECT phase, sum(greatest(kernels_ns, step_ns)) AS phase_ns FROM capture_phases GROUP BY phase),
             k AS (SELECT phase, precision, device_name, lower(device_name) AS device, sum(duration_ns) AS products_ns, sum(duration_ns) FILTER (bound IN ('compute')) AS compute_ns
                   FROM kernels JOIN captures USING (capture) WHERE class IN ('gemm', 'moe_gemm') AND kind IN ('kernel') GROUP BY phase, precision, device_name),
             g AS (SELECT k.*, phase_ns, narrower, times, basis, compute_ns * (1 - 1 / times) AS saved_ns FROM k LEFT JOIN faster USING (device, precision) JOIN p ON k.phase IS NOT DISTINCT FROM p.phase),
             b AS (SELECT * FROM g ORDER BY saved_ns IS NULL, least(saved_ns / phase_ns / {WORTH.value}, 1) DESC, saved_ns DESC, compute_ns DESC NULLS LAST LIMIT 1)
        SELECT phase, precision, device_name, narrower, basis, products_ns, compute_ns, phase_ns, times::DOUBLE AS times_ratio FROM (SELECT 1) LEFT JOIN b ON true
    """,
    judge=judge,
    limits=(WORTH,), asked_of="captures", views=("capture_phases",),
    moves=(Move("weights_fp8", "set", "other numbers: judge the answers before it is kept"),
           Move("numbers_bf16", "set", "other numbers: judge the answers before it is kept")),
    falsified_by="a capture after the move shows the products in the narrower format with as much time at as many tokens",
    # The same narrower weights are as many bytes less where those bind: one move, one finding.
    explained_by=("kernel.bytes_at_roof", "host.engine_core_behind"),
    cases=(
        Case("a prefill in 16 bits", "found", _case("kernel  moe_gemm  bf16  compute  420", "kernel  gemm  bf16  compute  140", "kernel  norm  -  -  440"),
             says="prefill: products in bf16 that are bound by arithmetic take 56% of the time; NVIDIA H200 multiplies 1.7 times as fast in fp8 (measured)"),
        Case("products in 32 bits", "found", _case("kernel  gemm  fp32  compute  100", device="NVIDIA H100 80GB HBM3"), says="14.8 times as fast in bf16 (by its data sheet)"),
        Case("just worth it", "found", _case("kernel  gemm  bf16  compute  128", "kernel  gemm  fp8  compute  872")),
        Case("just not", "clear", _case("kernel  gemm  bf16  compute  126", "kernel  gemm  fp8  compute  874"), says="too little to gain for other numbers"),
        Case("of steps that mostly wait", "clear", _case("kernel  gemm  bf16  compute  100", end_ns=1000), says="take 10% of the time"),
        Case("8 bits already", "clear", _case("kernel  gemm  fp8  compute  100"), says="narrower than that NVIDIA H200 multiplies in nothing"),
        Case("a device without narrower units", "clear", _case("kernel  gemm  bf16  compute  100", device="NVIDIA A100-SXM4-80GB"), says="nothing to gain there"),
        Case("bound by memory", "not_applicable", _case("kernel  gemm  bf16  memory  100"), says="no product whose work is known is bound by arithmetic on NVIDIA H200"),
        Case("an unknown device", "not_applicable", _case("kernel  gemm  bf16  -  100", device="NVIDIA GeForce RTX 3080"), says="RTX 3080 is not in the catalogue"),
        Case("no products", "not_applicable", _case("memcpy  gemm  bf16  compute  100"), says="no products"),
        Case("no device", "blind", _case("kernel  gemm  fp32  -  100", device="-"), says="does not say what it ran on"),
    ),
)  # fmt: skip
