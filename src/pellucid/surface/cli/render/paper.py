"""A prediction on paper on one screen: the question, the models, the placements in order, what is a bound and what not.

    NVIDIA H200 SXM × 8, of each 126.4 GiB for the engine, of which it holds 1.4 GiB to 7.7 GiB beside what is counted
    64 requests at a time, prompts of 1,024 tokens, answers of 256

    a       llama, 8.03 B parameters, 15.0 GiB in bf16, KV 128.0 KiB a token in bf16

    a       weights   KV tokens      requests      TTFT ≥  TPOT ≥  tokens/s ≤  in turn  seen  cost ≥
    DP8     15.0 GiB  780k to 830k   4,900 to 5,2  …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.core.units import duration, percent, size
from pellucid.surface.cli.render.page import MISSING

Row = Mapping[str, Any]
SHOWN = 8              # placements of a model, the best first; --json has all
BOUNDS = """≥ and ≤ are bounds from data sheets: no engine does better. In turn: each operation at its own roof, one
after another; placements are ordered by it. J/token: at that speed and the highest power of the GPUs; a slower engine
takes more."""
SEEN = "Seen: from how near engines came to that on this GPU; see docs/predict_on_paper.md for how few they are."


def paper(answer: Mapping[str, Any]) -> Group:
    return Group(*_parts(answer))


def _parts(answer: Mapping[str, Any]) -> Iterator[RenderableType]:
    head = answer["head"]
    yield Text(_machine(head), style="bold")
    yield Text(_load(head))
    for model in head["models"]:
        yield Text(f"{model['model']}: {_model(model, head)}")
    for name, rows in groupby(answer["rows"], key=lambda row: row["model"]):
        yield Text("")
        yield from _placements(name, list(rows), head)
        refused = [r for r in answer["refused"] if r["model"] == name]
        if refused:
            yield Text(f"not possible: {_refused(refused)}", style="dim")
    yield Text("")
    yield Text(BOUNDS, style="dim")
    if any(row["output_low_per_s"] is not None for row in answer["rows"]):
        yield Text(SEEN, style="dim")


def _machine(head: Row) -> str:
    held = " to ".join(dict.fromkeys((size(head["reserve_low_bytes"]), size(head["reserve_high_bytes"]))))
    return (f"{head['gpu']} × {head['gpus_count']}: {size(head['memory_bytes'] * head['share_ratio'])} of each for the "
            f"engine ({percent(head['share_ratio'])}), {held} of it beside what is counted")  # fmt: skip


def _load(head: Row) -> str:
    target = f", a token in each {duration(head['tpot_target_ns'])}" if head["tpot_target_ns"] else ""
    drafts = f", {head['drafts_count']} drafted tokens a step" if head["drafts_count"] else ""
    return (f"{head['requests_count']:,} requests at a time, prompts of {head['prompt_tokens']:,} tokens, answers of "
            f"{head['output_tokens']:,}{drafts}{target}")  # fmt: skip


def _model(model: Row, head: Row) -> str:
    kinds = ", ".join(f"{n} {kind}" for kind, n in model["kinds"].items())
    active = f", {billions(model['active_parameters_count'])} of them active"
    return (f"{model['model_type']}, {billions(model['parameters_count'])} parameters{active}, "
            f"{size(model['weights_bytes'])} in {', '.join(model['formats'])}; KV {size(model['kv_token_bytes'])} "
            f"a token in {head['kv']}; layers: {kinds}")  # fmt: skip


def billions(value: float) -> str:
    return f"{value / 1e12:.3g} T" if value >= 1e12 else f"{value / 1e9:.3g} B"


def _placements(name: str, rows: Sequence[Row], head: Row) -> Iterator[RenderableType]:
    target = "target_" if head["tpot_target_ns"] else ""
    priced = head["gpu_hour_price"] is not None
    seen = any(r[f"{target}output_low_per_s"] is not None for r in rows[:SHOWN])
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    shown.add_column(name, no_wrap=True)
    timed = ["in time", "at best ≤"] if target else []
    for column in ["weights", "KV tokens", "fit", *timed, "TTFT ≥", "TPOT ≥", "tokens/s ≤", "in turn", 
                   *(["seen"] if seen else []), *(["per million"] if priced else []), "J/token"]:  # fmt: skip
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("behind because", overflow="fold")
    for row in rows[:SHOWN]:
        cells = [row["placement"], size(row["weights_bytes"]), _span(row, "kv", "tokens"), _requests(row)]
        cells += [_count(row[key]) for key in ("target_requests_count", "in_time_most_count")] if target else []
        cells += [duration(row["ttft_least_ns"]), _cell(row[f"{target}tpot_least_ns"], duration)]
        cells += [_count(row[f"{target}{key}"]) for key in ("output_most_per_s", "output_in_turn_per_s")]
        cells += [_span(row, f"{target}output", "per_s")] if seen else []
        cells += [_price(row)] if priced else []
        cells += [_cell(row["token_tdp_joules"], lambda v: f"{v:.2g}")]
        shown.add_row(*cells, row["reason"], style="dim" if row["fits"] == "no" else None)
    if len(rows) > SHOWN:
        shown.add_row(f"{len(rows) - SHOWN} more", style="dim")
    yield shown
    yield from _even(rows[0])


def _even(best: Row) -> Iterator[Text]:
    """What prompts cost by themselves, and the best placement against the API."""
    if best["prompt_price_least"] is not None:
        alone = f"prompt tokens alone on {best['placement']} ≥ {best['prompt_price_least']:.3g}"
        yield Text(f"per million: output tokens with the prompts they need; {alone}")
    if best["api_price"] is None:
        return
    yield Text(f"the API: {best['api_price']:.3g} for a million output tokens with their prompts")
    least = best["even_least_ratio"]
    if least is None:
        return
    if least > 1:
        yield Text(f"{best['placement']} is dearer at any traffic, even at the roof")
        return
    low, high = best["even_low_ratio"], best["even_high_ratio"]
    seen = "" if low is None else f"; as engines were seen, above {percent(low)} to {percent(high)} of what they do"
    yield Text(f"{best['placement']} is cheaper from {best['even_requests_per_s']:.3g} requests/s on: {percent(least)} "
               f"of what it does at the roof{seen}")  # fmt: skip
    if high is not None and high > 1:
        yield Text("above 100% it is dearer at any traffic")


def _requests(row: Row) -> str:
    low, high = int(row["requests_fit_low_count"]), int(row["requests_fit_high_count"])
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _price(row: Row) -> str:
    if row["price_low"] is not None:
        return f"{row['price_low']:.3g} to {row['price_high']:.3g}"
    return _cell(row["price_least"], lambda v: f"≥ {v:.3g}")


def _span(row: Row, name: str, unit: str) -> str:
    low, high = row[f"{name}_low_{unit}"], row[f"{name}_high_{unit}"]
    return MISSING if low is None else f"{short(low)} to {short(high)}"


def short(value: float) -> str:
    """Three digits are more than a bound is worth: 1.24M, 830k, 950."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}" if value / unit < 999.5 else f"{value / unit:,.0f}{name}"
    return f"{value:.3g}"


def _count(value: float | None) -> str:
    return _cell(value, lambda v: f"{v:,.0f}")


def _cell(value: float | None, spell: Any) -> str:
    return MISSING if value is None else str(spell(value))


def _refused(refused: Sequence[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for r in refused:
        reasons.setdefault(r["reason"], []).append(r["placement"])
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
