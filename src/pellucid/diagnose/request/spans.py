"""One request's time, span by span. The spans add up; an end that was not seen makes its span blind, not zero.

    arrival   queued       scheduled                     first token  delivered          last token  delivered
       |frontend|   queue     |          prefill              |first_sample|
       |frontend|   queue     |          prefill              |            decode             |last_delivery|
                   waited for:   own · others · decodes · host · absent
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pellucid.core.units import duration
from pellucid.diagnose.request.seen import Seen

WAITED_FOR = {
    "sequence_cap": "a place among the running requests",
    "token_budget": "the token budget of a step",
    "kv": "free KV blocks",
    "deferred": "a grammar, a LoRA slot or a KV transfer",
    "step_in_progress": "the step in progress to end",
}
PREFILL = {
    "own_chunks": "its own prompt",
    "others_chunks": "other requests' prompts in the same steps",
    "decodes": "other requests' decodes in the same steps",
    "absent": "steps it was not in",
    "host": "between steps",
}
NETWORK = ("the request named no time at which it was sent", "have the client or gateway send X-Request-Start, or give "
           "its spans: --spans FILE")  # fmt: skip
SAME_TIME = "set the clocks of both hosts by the same source"
SKEWED = ("it was sent after it arrived, by the sender's clock", SAME_TIME)


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    duration_ns: int
    says: str
    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    name: str
    duration_ns: int | None       # None: an end was not seen
    parts: tuple[Part, ...] = ()  # add up to the duration
    reason: str = ""              # why it is blind
    collect: str = ""


def ttft_spans(seen: Seen) -> list[Timed]:
    row = seen.row
    return [
        _network(row),
        _between(row, "frontend", "arrival_ns", "queued_ns"),
        _between(row, "queue", "queued_ns", "scheduled_ns", queue_parts(seen)),
        _between(row, "prefill", "scheduled_ns", "first_token_ns", prefill_parts(seen)),
        _between(row, "first_sample", "first_token_ns", "first_delivered_ns"),
    ]


def e2e_spans(seen: Seen) -> list[Timed]:
    row = seen.row
    return [
        *ttft_spans(seen)[:4],
        _between(row, "decode", "first_token_ns", "last_token_ns"),
        _between(row, "last_delivery", "last_token_ns", "last_delivered_ns"),
    ]


def total(row: dict[str, Any], end: str) -> int | None:
    """Sending, where it is known, else arrival, to `end`; None when one of them was not seen."""
    if row["arrival_ns"] is None or row[end] is None:
        return None
    return int(row[end] - row["arrival_ns"]) + (_network(row).duration_ns or 0)


def _network(row: dict[str, Any]) -> Timed:
    if row["sent_ns"] is None or row["arrival_ns"] is None:
        return Timed("network", None, reason=NETWORK[0], collect=NETWORK[1])
    if row["sent_ns"] > row["arrival_ns"]:
        return Timed("network", None, reason=SKEWED[0], collect=SKEWED[1])
    return Timed("network", int(row["arrival_ns"] - row["sent_ns"]))


def queue_parts(seen: Seen) -> tuple[Part, ...]:
    """What it waited for, by the reason the scheduler had while each step ran; before the first such step, the step in progress."""  # noqa: E501
    start_ns, end_ns = seen.row["queued_ns"], seen.row["scheduled_ns"]
    if start_ns is None or end_ns is None:
        return ()
    spent: Counter[str] = Counter()
    at_ns = start_ns
    inside = [s for s in seen.steps if s["end_ns"] > start_ns and s["start_ns"] < end_ns]
    for step, after in zip(inside, [*inside[1:], None], strict=False):
        until_ns = min(end_ns, after["start_ns"] if after else end_ns)
        reason = _reason(step) if step["start_ns"] >= start_ns else "step_in_progress"
        spent[reason] += max(0, until_ns - at_ns)
        at_ns = max(at_ns, until_ns)
    spent["step_in_progress"] += end_ns - at_ns
    return tuple(Part(n, ns, f"waited {duration(ns)} for {WAITED_FOR[n]}") for n, ns in spent.most_common() if ns)


def _reason(step: dict[str, Any]) -> str:
    counts = {n: step[f"waiting_{n}_count"] or 0 for n in WAITED_FOR if n != "step_in_progress"}
    name = max(counts, key=lambda n: counts[n])
    return name if counts[name] else "step_in_progress"


def prefill_parts(seen: Seen) -> tuple[Part, ...]:
    """Step time by share of tokens: its own, other prompts, decodes; then steps without it, and time between steps.
    Nothing where its shares were not recorded."""
    start_ns, end_ns = seen.row["scheduled_ns"], seen.row["first_token_ns"]
    if start_ns is None or end_ns is None or not seen.shares:
        return ()
    own = {s["step"]: s["tokens"] for s in seen.shares}
    spent: Counter[str] = Counter()
    guilty: Counter[str] = Counter()
    for step in seen.steps:
        if step["start_ns"] < start_ns or step["end_ns"] > end_ns:
            continue
        lasted_ns = step["end_ns"] - step["start_ns"]
        if step["step"] not in own:
            spent["absent"] += lasted_ns
            continue
        theirs = [o for o in seen.others if o["step"] == step["step"]]
        tokens = max(step["scheduled_tokens"] or 0, own[step["step"]] + sum(o["tokens"] for o in theirs))
        for other in theirs:
            spent["others_chunks"] += lasted_ns * other["tokens"] // tokens
            guilty[other["request_id"]] += other["tokens"]
        own_ns = lasted_ns * own[step["step"]] // tokens
        spent["own_chunks"] += own_ns
        spent["decodes"] += lasted_ns - own_ns - sum(lasted_ns * o["tokens"] // tokens for o in theirs)
    spent["host"] = end_ns - start_ns - sum(spent.values())
    return tuple(_part(n, spent[n], guilty) for n in PREFILL if spent[n])


def _part(name: str, lasted_ns: int, guilty: Counter[str]) -> Part:
    names = tuple(n for n, _ in guilty.most_common(5)) if name == "others_chunks" else ()
    whose = f" ({', '.join(names)})" if names else ""
    return Part(name, lasted_ns, f"{duration(lasted_ns)} for {PREFILL[name]}{whose}", names)


def _between(row: dict[str, Any], name: str, start: str, end: str, parts: Iterable[Part] = ()) -> Timed:
    lacking = [c for c in (start, end) if row[c] is None]
    if lacking:
        return Timed(name, None, reason=f"{' and '.join(lacking)} not seen", collect=_collect(row, lacking[0]))
    return Timed(name, int(row[end] - row[start]), tuple(parts))


def _collect(row: dict[str, Any], column: str) -> str:
    if row["finish_reason"] is None:
        return "the request had not finished when the recording ended: look again later"
    frontend = column in ("arrival_ns", "first_delivered_ns", "last_delivered_ns")
    if frontend and row["arrival_ns"] is not None:
        return "its frontend has the probe, which left this moment out: pellucid doctor says whether it sheds any"
    return f"run the engine with the probe in its {'frontend' if frontend else 'engine core'}"
