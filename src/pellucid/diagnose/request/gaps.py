"""One request's gaps between tokens, each with its cause. All gaps together are its decode time.

    gap: end of the step that made one token → end of the step that made the next
        preempted       it lost its KV blocks in between and was computed again
        not_scheduled   steps ran without it
        other_prefill   more than half of it was other requests' prompts, by their share of the step's tokens
        host            more than half of it was spent outside of the device's work
        decode          an ordinary step
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pellucid.core.units import duration
from pellucid.diagnose.request.seen import Rows, Seen

WORST = 5          # gaps that are told one by one
MOST = 0.5         # a cause has more than this share of the gap


@dataclass(frozen=True, slots=True)
class Gap:
    token: int                     # number of the token it ends in, the first is 0
    start_ns: int
    duration_ns: int
    cause: str
    says: str
    request_ids: tuple[str, ...] = ()


def gaps_of(seen: Seen) -> list[Gap]:
    """In order. Empty when fewer than two tokens were made, or none of the steps was recorded."""
    by_step = {s["step"]: s for s in seen.steps}
    order = sorted(by_step)
    made = [(s["step"], s["output_tokens"]) for s in seen.shares if s["output_tokens"] and s["step"] in by_step]
    present = {s["step"] for s in seen.shares}
    others: dict[int, Rows] = {}
    for other in seen.others:
        others.setdefault(other["step"], []).append(other)
    gaps, token = [], 0
    for (before, count), (step, _) in pairwise(made):
        token += count
        inside = [by_step[n] for n in order[bisect_right(order, before) : bisect_right(order, step)]]
        start_ns = by_step[before]["end_ns"]
        lasted_ns = by_step[step]["end_ns"] - start_ns
        cause, says, names = _cause(seen, inside, present, others, lasted_ns)
        gaps.append(Gap(token, start_ns, lasted_ns, cause, f"{duration(lasted_ns)}: {says}", names))
    return gaps


def worst(gaps: list[Gap]) -> list[Gap]:
    key: Callable[[Gap], tuple[int, int]] = lambda g: (-g.duration_ns, g.token)  # noqa: E731
    return sorted(gaps, key=key)[:WORST]


def by_cause(gaps: list[Gap]) -> list[dict[str, Any]]:
    """Causes by the time they took; the times add up to the decode time."""
    time_ns: Counter[str] = Counter()
    for gap in gaps:
        time_ns[gap.cause] += gap.duration_ns
    counts = Counter(g.cause for g in gaps)
    return [{"cause": c, "gaps_count": counts[c], "total_ns": ns} for c, ns in time_ns.most_common()]


def _cause(
    seen: Seen, inside: Rows, present: set[int], others: dict[int, Rows], lasted_ns: int
) -> tuple[str, str, tuple[str, ...]]:
    numbers = {s["step"] for s in inside}
    lost = [e for e in seen.events if e["event"] == "preempted" and e["step"] in numbers]
    if lost:
        tokens = sum(e["tokens"] or 0 for e in lost)
        return "preempted", f"preempted, {tokens} computed positions lost and computed again", ()
    without = [s for s in inside if s["step"] not in present]
    if without:
        away_ns = sum(s["end_ns"] - s["start_ns"] for s in without)
        return "not_scheduled", f"{len(without)} steps ({duration(away_ns)}) ran without it", ()
    prompts_ns, names = 0.0, Counter[str]()
    for step in inside:
        for other in others.get(step["step"], ()):
            prompts_ns += (step["end_ns"] - step["start_ns"]) * other["tokens"] / max(1, step["scheduled_tokens"] or 1)
            names[other["request_id"]] += other["tokens"]
    if prompts_ns > MOST * lasted_ns:
        whose = tuple(n for n, _ in names.most_common(5))
        return "other_prefill", f"{names.total()} prompt tokens of {', '.join(whose)} in the same step", whose
    host_ns = sum((s["schedule_ns"] or 0) + (s["update_ns"] or 0) + max(0, s["host_gap_ns"] or 0) for s in inside)
    if host_ns > MOST * lasted_ns:
        return "host", f"{duration(host_ns)} of it scheduling, updating and between steps", ()
    return "decode", "an ordinary step", ()
