"""Timeline and labels → for each kernel its step, phase and layer; for each step and device how its time passed.

    placed = place(timeline, labels)       labels: one for each kernel (trace/classify)
    placed.phase[placed.step[7]], placed.layer[7]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pellucid.trace.classify import Label
from pellucid.trace.place.layers import LEAST_LAYERS, MIXERS, layers
from pellucid.trace.place.lookups import Lookups, find_lookups
from pellucid.trace.place.phases import Phase, phases
from pellucid.trace.place.signs import signs
from pellucid.trace.place.steps import OUTSIDE, Step, Steps, annotated, begun, graph_launches, graph_of, none
from pellucid.trace.timeline import KERNEL, Longs, Timeline

# Kernels of the class attention that do not mix tokens themselves: a layer may have several of them, or none.
HELPERS = ("metadata", "combine", "merge", "index", "quant", "reduce", "topk")


@dataclass(frozen=True, slots=True)
class StepSeen:
    """A step with its batch, from its label where that says it, else from its kernels. None is not known."""

    step: Step
    phase: str | None
    phase_basis: str | None
    graph: str | None
    prefill_requests: int | None
    prefill_tokens: int | None
    decode_requests: int | None
    decode_tokens: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    steps: tuple[StepSeen, ...]
    step: Longs                 # row in `steps` of each kernel; OUTSIDE
    layer: Longs                # layer of each kernel; OUTSIDE
    rows: tuple[Longs, ...]     # kernels of each step


def place(timeline: Timeline, labels: Sequence[Label]) -> Placed:
    lookups = find_lookups(timeline)
    mixing = np.array([is_mixer(label) for label in labels], bool)
    steps = annotated(timeline) or _by_kernels(timeline, lookups, mixing)
    rows = _rows(steps)
    graphs = [graph_of(timeline, r) for r in rows]
    seen = _seen(timeline, steps, rows, graphs, lookups, labels)
    return Placed(tuple(seen), steps.of_kernel, _layers(timeline, rows, labels, mixing), tuple(rows))


def _by_kernels(timeline: Timeline, lookups: Lookups, mixing: np.ndarray) -> Steps:
    for steps in (begun(timeline, lookups.kernels), graph_launches(timeline)):
        if steps is not None and _whole_models(steps, mixing):
            return steps
    return none(timeline)


def is_mixer(label: Label) -> bool:
    return label.category in MIXERS and not any(word in label.detail for word in HELPERS)


def _whole_models(steps: Steps, mixing: np.ndarray) -> bool:
    """Whether most steps that kernels told run through layers; what begins a layer begins no step."""
    counts = np.bincount(steps.of_kernel[mixing & (steps.of_kernel >= 0)], minlength=len(steps.steps))
    return float(np.median(counts)) >= LEAST_LAYERS


def _rows(steps: Steps) -> list[Longs]:
    order = np.argsort(steps.of_kernel, kind="stable")
    edges = np.searchsorted(steps.of_kernel[order], np.arange(len(steps.steps) + 1))
    return [np.sort(order[a:b]) for a, b in pairwise(edges.tolist())]


def _seen(
    timeline: Timeline, steps: Steps, rows: Sequence[Longs], graphs: Sequence[str | None], lookups: Lookups,
    labels: Sequence[Label],
) -> list[StepSeen]:  # fmt: skip
    shown = signs(timeline, rows, lookups, [label.phase for label in labels], graphs)
    guessed = phases(shown)
    out = []
    for step, sign, guess, graph in zip(steps.steps, shown, guessed, graphs, strict=True):
        if step.label.phase is not None:
            label = step.label
            out.append(StepSeen(step, label.phase, "annotation", graph, label.prefill_requests, label.prefill_tokens,
                                label.decode_requests, label.decode_tokens))  # fmt: skip
        else:
            out.append(StepSeen(step, guess.name, guess.basis, graph, *_batch(guess, sign.tokens)))
    return out


def _batch(guess: Phase, tokens: int | None) -> tuple[int | None, int | None, int | None, int | None]:
    """Prefill requests and tokens, decode requests and tokens. One token for each that decodes: drafts do not show."""
    decodes = guess.decodes
    if tokens is None or decodes is None:
        return guess.prefills, 0 if guess.name == "decode" else None, decodes, decodes
    return guess.prefills, tokens - decodes, decodes, decodes


def _layers(timeline: Timeline, rows: Sequence[Longs], labels: Sequence[Label], mixing: np.ndarray) -> Longs:
    """On each device, of the kernels of the stream with most of a step's."""
    kernels = timeline.kernels
    found = np.full(len(kernels), OUTSIDE, np.int64)
    for mine in rows:
        work = mine[kernels.kind[mine] == KERNEL]
        for device in np.unique(kernels.device[work]).tolist():
            on = work[kernels.device[work] == device]
            streams, counts = np.unique(kernels.stream[on], return_counts=True)
            on = on[kernels.stream[on] == streams[np.argmax(counts)]]
            found[on] = layers([labels[i].category for i in on.tolist()], mixing[on].tolist())
            others = mine[(kernels.device[mine] == device) & (found[mine] == OUTSIDE)]
            found[others] = _between(found[on], kernels.start_ns[on], kernels.start_ns[others])
    return found


def _between(layer: Longs, start_ns: Longs, moments: Longs) -> Longs:
    """Copies, fills and kernels of other streams: the layer that is under way, if the next kernel is of the same."""
    at = np.searchsorted(start_ns, moments, "right") - 1
    before = np.where(at >= 0, layer[np.maximum(at, 0)], OUTSIDE)
    behind = layer[np.minimum(at + 1, len(layer) - 1)]
    return np.where(before == behind, before, OUTSIDE)
