"""One placement → one row: every number with its unit in its name, null for what is not known.

    row("a", ranked, setting, gpu_hour=3.5, api=None)["kv_low_tokens"]       == 690_112
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.sim.paper.choose import Ranked
from pellucid.sim.paper.cost import Api, against_api, joules_per_token, per_million
from pellucid.sim.paper.fit import Fit, Span
from pellucid.sim.paper.outlook import Outlook, Setting, Speed

Row = dict[str, Any]


def row(model: str, found: Ranked, setting: Setting, gpu_hour: float | None, api: Api | None) -> Row:
    outlook = found.outlook
    p, chosen = outlook.placement, outlook.at_target or outlook.speed
    return {
        "model": model, "placement": p.name, "tensor_ranks_count": p.tp, "stages_count": p.pp, "replicas_count": p.dp,
        "expert_ranks_count": p.tp * p.dp if p.ep else 1, "reason": found.reason,
        **_fit(outlook), **_speed("", outlook.speed, outlook.sure),
        **_speed("target_", outlook.at_target, outlook.at_target),
        "in_time_most_count": outlook.in_time_most_count, "ttft_least_ns": outlook.prompt.least_ns,
        "ttft_in_turn_ns": outlook.prompt.in_turn_ns,
        "prompt_tokens_most_per_s": outlook.prompt_tokens_most_per_s,
        "prompt_price_least": _prompt_price(outlook, gpu_hour),
        **_cost(chosen, outlook.at_target or outlook.sure, setting, Prices(gpu_hour, api, p.gpus_count)),
    }  # fmt: skip


def _fit(outlook: Outlook) -> Row:
    fit: Fit = outlook.fit
    return {
        "fits": "yes" if fit.surely else "perhaps" if fit.fits else "no", "weights_bytes": fit.weights_bytes,
        "activations_least_bytes": fit.activations_bytes, "kv_token_bytes": outlook.kv.token_bytes,
        "kv_copies_ratio": outlook.kv.copies_ratio, "state_bytes": outlook.kv.state_bytes,
        **_span("kv", "bytes", fit.kv_bytes), **_span("kv", "tokens", fit.kv_tokens),
        **_span("kv_blocks", "count", fit.blocks_count), **_span("requests_fit", "count", outlook.requests_fit_count),
    }  # fmt: skip


def _speed(prefix: str, speed: Speed | None, sure: Speed | None) -> Row:
    """`sure` has the low end: with the requests that fit beside the largest reserve."""
    if speed is None:
        names = ("requests_count", "decode_step_least_ns", "decode_step_in_turn_ns", "tpot_least_ns", "tpot_low_ns",
                 "tpot_high_ns", "output_most_per_s", "output_in_turn_per_s", "output_low_per_s", "output_high_per_s",
                 "binds", "binds_ratio")  # fmt: skip
        return {f"{prefix}{name}": None for name in names}
    binds = max(speed.steady.limits, key=lambda pair: pair[1])[0]
    found = {
        "requests_count": speed.requests_count, "decode_step_least_ns": speed.decode.least_ns,
        "decode_step_in_turn_ns": speed.decode.in_turn_ns, "tpot_least_ns": speed.tpot_least_ns,
        **_span("tpot", "ns", speed.steady_seen_ns), **_span("output", "per_s", _output(speed, sure)),
        "output_most_per_s": speed.output_most_per_s, "output_in_turn_per_s": speed.output_in_turn_per_s,
        "binds": binds, "binds_ratio": speed.steady.share(binds),
    }  # fmt: skip
    return {f"{prefix}{name}": value for name, value in found.items()}


def _output(speed: Speed, sure: Speed | None) -> Span | None:
    most, least = speed.output_seen_per_s, sure and sure.output_seen_per_s
    return Span(least.low, most.high) if most and least else None


def _prompt_price(outlook: Outlook, gpu_hour: float | None) -> float | None:
    """Of a million prompt tokens where nothing else runs."""
    if gpu_hour is None or outlook.speed is None:
        return None
    return per_million(gpu_hour * outlook.placement.gpus_count, outlook.prompt_tokens_most_per_s)


@dataclass(frozen=True, slots=True)
class Prices:
    gpu_hour: float | None
    api: Api | None
    gpus_count: int

    @property
    def hourly(self) -> float | None:
        return None if self.gpu_hour is None else self.gpu_hour * self.gpus_count


def _cost(speed: Speed | None, sure: Speed | None, setting: Setting, prices: Prices) -> Row:
    """Of a million output tokens with the prompts they need, and against an API."""
    names = ("price_least", "price_low", "price_high", "api_price", "even_requests_per_s", "even_least_ratio",
             "even_low_ratio", "even_high_ratio", "token_tdp_joules")  # fmt: skip
    found: Row = dict.fromkeys(names)
    traffic, api, hourly, watts = setting.traffic, prices.api, prices.hourly, setting.device.cells["tdp_watts"].value
    if api is not None:
        found["api_price"] = api.of(traffic.prompt_tokens, traffic.output_tokens) * 1_000_000 / traffic.output_tokens
    if speed is None:
        return found
    if watts is not None:
        found["token_tdp_joules"] = joules_per_token(watts * prices.gpus_count, speed.output_most_per_s)
    if hourly is None:
        return found
    seen = _output(speed, sure)
    found["price_least"] = per_million(hourly, speed.output_most_per_s)
    if seen is not None:
        found |= {"price_low": per_million(hourly, seen.high), "price_high": per_million(hourly, seen.low)}
    if api is not None:
        request = api.of(traffic.prompt_tokens, traffic.output_tokens)
        even = against_api(request, hourly, speed.output_most_per_s / traffic.output_tokens)
        found |= {"even_requests_per_s": even.requests_per_s, "even_least_ratio": even.utilisation_ratio}
        if seen is not None:
            low, high = (against_api(request, hourly, s / traffic.output_tokens) for s in (seen.high, seen.low))
            found |= {"even_low_ratio": low.utilisation_ratio, "even_high_ratio": high.utilisation_ratio}
    return found


def _span(name: str, unit: str, span: Span | None) -> Row:
    return {f"{name}_low_{unit}": span and span.low, f"{name}_high_{unit}": span and span.high}
