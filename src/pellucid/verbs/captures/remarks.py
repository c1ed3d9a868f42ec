"""What has to be known before two captures are compared: why their times may differ, or do not compare at all.

    list(remarks(a, b, ("decode",)))
    → ["decode: 64 requests in a step of a, 32 in one of b: times per step do not compare", "a ran on …, b on …"]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.core.units import counted, duration, percent
from pellucid.verbs.captures.sides import Side

# Chosen: most kernels of a step grow with its batch, and a tenth more of it is as much as a change worth looking for.
ALIKE_RATIO = 0.1
# Chosen: from so few steps the spread itself is known to within a third of it or worse.
FEW_STEPS = 5
BATCHES = {
    "decode": (("decode_requests_count", "requests"),),
    "prefill": (("prefill_tokens", "prompt tokens"),),
    "mixed": (("decode_requests_count", "decoding requests"), ("prefill_tokens", "prompt tokens")),
}


def remarks(a: Side, b: Side, chosen: Sequence[str | None]) -> Iterator[str]:
    for name, what in (("device_name", "device"), ("model", "model"), ("devices_count", "number of devices")):
        x, y = a.told(name), b.told(name)
        if x and y and x != y:
            yield f"not the same {what}: a has {x}, b has {y}"
    if not chosen:
        yield from _of_wholes(a, b)
    for phase in chosen:
        yield from _of_batches(a, b, phase)
        yield from _of_graphs(a, b, phase)
        yield from _of_few(a, b, phase)
    if chosen:
        yield from _left_out(a, b, chosen)
    for letter, one in (("a", a), ("b", b)):
        yield from (f"{letter}: {note}" for note in one.notes)


def _of_wholes(a: Side, b: Side) -> Iterator[str]:
    has = [f"{letter} has {', '.join(p or 'steps of no known phase' for p in one.phases) or 'no steps'}"
           for letter, one in (("a", a), ("b", b))]  # fmt: skip
    yield (f"no phase has steps on both sides ({', '.join(has)}): whole traces are compared, times grow with what each "
           "ran, and nothing says how much varies by itself")  # fmt: skip


def _of_batches(a: Side, b: Side, phase: str | None) -> Iterator[str]:
    if phase not in BATCHES:
        yield "steps of no known phase are compared: whether they did the same work is not known"
        return
    for column, things in BATCHES[phase]:
        x, y = a.phases[phase][column], b.phases[phase][column]
        if x is None or y is None:
            yield f"{phase}: {things} in a step are not known on {' and '.join(n for n, v in (('a', x), ('b', y)) if v is None)}: times per step compare if they are alike"  # noqa: E501
        elif abs(x - y) > ALIKE_RATIO * max(x, y):
            yield f"{phase}: {_mean(x)} {things} in a step of a, {_mean(y)} in one of b: times per step do not compare"


def _mean(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or value >= 100 else f"{value:,.1f}"


def _of_graphs(a: Side, b: Side, phase: str | None) -> Iterator[str]:
    x, y = a.phases[phase]["graph"], b.phases[phase]["graph"]
    if x and y and x != y:
        yield f"{phase or 'phase not known'}: device graphs {x} on a, {y} on b"


def _of_few(a: Side, b: Side, phase: str | None) -> Iterator[str]:
    counts = [one.phases[phase]["steps_count"] for one in (a, b)]
    name = phase or "phase not known"
    if min(counts) == 1:
        yield f"{name}: one step on a side, which does not say how much varies by itself; nothing is judged"
    elif min(counts) < FEW_STEPS:
        yield f"{name}: {counts[0]} steps on a, {counts[1]} on b: from so few, the spread is only about right"


def _left_out(a: Side, b: Side, chosen: Sequence[str | None]) -> Iterator[str]:
    for letter, one in (("a", a), ("b", b)):
        alone = [f"{counted(row['steps_count'], 'steps')} of {p or 'no known phase'}"
                 for p, row in one.phases.items() if p not in chosen]  # fmt: skip
        if alone:
            yield f"{letter}: {', '.join(alone)} are not compared"
        outside, all_ns = one.seen["outside_ns"], one.seen["kernels_ns"]
        if outside:
            yield f"{letter}: {duration(outside)} of kernels ({percent(outside / all_ns)}) ran outside of steps and are not compared"  # noqa: E501
