"""What tokens cost: GPUs by the hour and tokens a second → a price for a million, and the traffic at which it pays.

    per_million(hourly=28.0, per_s=4_000)              == 1.94…
    against_api(Api(0.5, 2.0), hourly, request, most)  Break(requests_per_s=3.2, utilisation_ratio=0.41)

Prices are in whatever currency they are given in. Times are bounds, so a cost made of one is a bound: the least.
"""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Api:
    """For a million tokens each."""

    prompt: float
    output: float

    def of(self, prompt_tokens: int, output_tokens: int) -> float:
        """One request."""
        return (self.prompt * prompt_tokens + self.output * output_tokens) / MILLION


@dataclass(frozen=True, slots=True)
class Break:
    """Where GPUs of one's own cost as much as the API."""

    requests_per_s: float
    utilisation_ratio: float       # of what the placement can do; above 1 the API is cheaper at any traffic


def per_million(hourly: float, per_s: float) -> float:
    return hourly / HOUR_S / per_s * MILLION


def against_api(request_price: float, hourly: float, requests_most_per_s: float) -> Break:
    """Raises ValueError where a request costs nothing."""
    if request_price <= 0:
        raise ValueError("a request that costs nothing is always cheaper")
    even = hourly / HOUR_S / request_price
    return Break(even, even / requests_most_per_s)


def joules_per_token(watts: float, per_s: float) -> float:
    """At that power and speed. At a GPU's highest power it is the most that it takes when it runs so fast."""
    return watts / per_s
