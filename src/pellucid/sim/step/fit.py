"""Recorded steps → a model of their duration, checked on stretches that it was not fitted on.

    model = fit(seen(run))

Weights that cannot be negative (Lawson & Hanson 1974), each step by its own size, so that ten short steps count as much
as ten long ones; steps that are far off (a collection of garbage, a neighbour) lose weight after Huber (1964). What the
model says is a step as it usually is. How far single steps were from that, the far ones among them, is kept beside it,
of decodes alone and of steps with a chunk: whoever draws from there gets the totals that were measured.

For every fifth of the run, in order of time, a model of the other four says it: how single steps scatter, and by how
much whole stretches were off. A mixed step is a step of its own here, with weights of its own where there are enough of
them: a GPU runs decodes as one graph and steps with a chunk kernel by kernel. Nothing is added up from pure ones.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from pellucid.core.errors import CannotAnswer
from pellucid.sim.step.features import columns
from pellucid.sim.step.model import Bools, Range, StepModel, Weights
from pellucid.sim.step.scatter import LEAST, Scatter
from pellucid.sim.step.seen import Floats, Steps

LEAST_STEPS = 200      # chosen: fifty for each fold that is left out, at least
LEAST_OWN = 100        # chosen: steps of a kind, for its weights to be its own: five for each
FOLDS = 5
ROUNDS = 6
HUBER = 3.0            # in median absolute deviations
RIDGE = 1e-3           # of a column's own size: among columns that say the same, none runs away


def fit(steps: Steps) -> StepModel:
    """Raises CannotAnswer where there is too little to learn from."""
    if len(steps) < LEAST_STEPS:
        raise CannotAnswer(
            f"{len(steps)} steps of which it is known what was in them, and a model of a step's time needs "
            f"{LEAST_STEPS}. Try: record for longer, under load"
        )
    x, y, mixed = columns(steps), steps.took_ns, steps.chunks_count > 0
    said = _held_out(x, y, mixed)
    plain_off, mixed_off = (_scatter(said, y / said, kind) for kind in (~mixed, mixed))
    expected = said * np.where(mixed, mixed_off.mean(said), plain_off.mean(said))
    return StepModel(_by_kind(x, y, mixed), plain_off, mixed_off, y, expected, _ranges(steps))


def _by_kind(x: Floats, y: Floats, mixed: Bools) -> Weights:
    shared = _weights(x, y) if min(mixed.sum(), (~mixed).sum()) < LEAST_OWN else None
    plain, other = (_weights(x[kind], y[kind]) if shared is None or kind.sum() >= LEAST_OWN else shared
                    for kind in (~mixed, mixed))  # fmt: skip
    return Weights(plain, other)


def _weights(x: Floats, y: Floats) -> Floats:
    """Least squares of relative errors, none below 0."""
    size = np.abs(x / y[:, None]).mean(axis=0)
    size[size == 0] = 1.0
    scaled = x / y[:, None] / size
    ridge = np.eye(x.shape[1]) * RIDGE * np.sqrt(len(y))
    trust = np.ones(len(y))
    found = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        found, _ = nnls(np.vstack([scaled * trust[:, None], ridge]), np.concatenate([trust, np.zeros(x.shape[1])]),
                        maxiter=40 * x.shape[1])  # fmt: skip
        error = np.abs(scaled @ found - 1)
        limit = HUBER * max(1.4826 * float(np.median(error)), 1e-9)
        trust = np.sqrt(np.minimum(1.0, limit / np.maximum(error, 1e-12)))
    weights: Floats = found / size
    return weights


def _held_out(x: Floats, y: Floats, mixed: Bools) -> Floats:
    """What models say that have not seen it."""
    said = np.empty_like(y)
    fold = np.arange(len(y)) * FOLDS // len(y)
    for k in range(FOLDS):
        rest, here = fold != k, fold == k
        said[here] = _by_kind(x[rest], y[rest], mixed[rest]).said(x[here], mixed[here])
    return np.maximum(said, 1.0)


def _scatter(said: Floats, ratio: Floats, kind: Bools) -> Scatter:
    """Of a kind; where it is hardly there, of all."""
    chosen = kind if kind.sum() >= LEAST else np.ones(len(ratio), bool)
    return Scatter.of(said[chosen], ratio[chosen])


def _ranges(steps: Steps) -> tuple[Range, ...]:
    """In the order of StepModel.outside."""
    requests = steps.decodes_count + steps.chunks_count
    named = (("tokens in a step", steps.tokens), ("requests in a step", requests),
             ("positions that decodes see", steps.decode_context_tokens),
             ("prompt tokens in a step", steps.chunk_tokens))  # fmt: skip
    return tuple(Range(name, float(values.min()), float(values.max())) for name, values in named)
