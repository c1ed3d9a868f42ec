"""Whether a request, as a client saw it, was within what users are promised.

    measure(replies, duration_ns, kept(read_slo("ttft_p95<2s")))       Measures(good_count=114, …)
"""

from __future__ import annotations

from collections.abc import Callable

from pellucid.collect.client.measures import Seen
from pellucid.tune.slo import Request, Slo, within


def kept(slo: Slo) -> Callable[[Seen], bool | None] | None:
    """None without limits: then nothing is good or bad."""
    if not slo:
        return None
    return lambda one: within(slo, Request(one.ok, one.ttft_ns, one.e2e_ns, one.gaps_ns))
