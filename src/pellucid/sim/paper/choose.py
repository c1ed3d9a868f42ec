"""Placements in order, the best first, and why each of the others is behind it.

    ranked(outlooks)      (Ranked(outlook, reason=""), Ranked(outlook, "43% of a step on the wires between GPUs"), …)

Compared by output tokens a second with the roofs in turn; where a target was set, at as many requests as meet it so.
What does not fit comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.core.units import percent, size
from pellucid.sim.paper.outlook import Outlook, Speed

ALIKE_RATIO = 0.02     # chosen: below it a difference in roofs says nothing about engines


@dataclass(frozen=True, slots=True)
class Ranked:
    outlook: Outlook
    reason: str                    # "" for the best


def judged(found: Outlook, target: bool) -> Speed | None:
    """The speed that a placement is compared by."""
    return found.at_target if target else found.speed


def ranked(outlooks: Sequence[Outlook], target: bool) -> tuple[Ranked, ...]:
    order = sorted(outlooks, key=lambda o: _rate(o, target), reverse=True)
    best = order[0] if order and _rate(order[0], target) else None
    return tuple(Ranked(o, "" if o is best else _reason(o, best, target)) for o in order)


def _rate(found: Outlook, target: bool) -> float:
    speed = judged(found, target)
    return 0.0 if speed is None else speed.output_in_turn_per_s


def _reason(found: Outlook, best: Outlook | None, target: bool) -> str:
    mine = judged(found, target)
    if mine is None:
        return _none(found, target)
    first = judged(best, target) if best is not None else None
    if first is None:
        return ""
    behind = 1 - mine.output_in_turn_per_s / first.output_in_turn_per_s
    if behind < ALIKE_RATIO:
        return f"within {percent(ALIKE_RATIO)} of the best"
    if mine.requests_count < first.requests_count:
        full = mine.requests_count >= found.requests_fit_count.high
        why = "has room for" if full or not target else "meets the target with"
        return f"{why} {mine.requests_count:,} requests, the best {first.requests_count:,}"
    return _slower(mine, first)


def _none(found: Outlook, target: bool) -> str:
    held = found.fit
    if held.missing_bytes:
        return (f"does not fit: weights of {size(held.weights_bytes)} and {size(held.activations_bytes)} beside them, "
                f"{size(held.missing_bytes)} more than the share of {size(held.room_bytes)} has")  # fmt: skip
    if target and found.speed is not None:
        return "misses the target with a single request, its roofs in turn"
    return f"does not fit: {size(held.kv_bytes.high)} left for KV are less than one request"


def _slower(mine: Speed, first: Speed) -> str:
    """By what its steps take longer for each token: the part with the largest difference."""
    before = {part: ns / first.requests_count for part, ns in first.steady.limits}
    more = {part: ns / mine.requests_count - before.get(part, 0.0) for part, ns in mine.steady.limits}
    part = max(more, key=lambda p: more[p])
    share = percent(mine.steady.share(part))
    if part in ("link", "network"):
        return f"{share} of a step on the wires between GPUs"
    if part == "memory":
        return f"reads more for each token: {size(mine.steady.work.moved_bytes)} a step on each GPU, {share} of it"
    return f"computes longer for each token: {share} of a step"
