"""The same tokens shown to two engines: how far apart are the distributions they would draw the next one from?

    forced = distances([(reference_scores, candidate_scores), …])
    forced.kl_nats           mean over tokens, one number for each text
    forced.agreeing_ratio    tokens where both find the same token likeliest

Engines name their likeliest tokens only. The tokens both name are taken one by one, all others together as one:

    token        reference   candidate
    "harbour"    0.60        0.50            0.60 ln(0.60/0.50)
    "port"       0.30        0.35          + 0.30 ln(0.30/0.35)
    all others   0.10        0.15          + 0.10 ln(0.10/0.15)

Putting outcomes together can only bring distributions nearer, so this is a lower bound of the divergence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.collect.client.scores import Floats, Scores
from pellucid.tune.fidelity.answers import LEAST, Bools


@dataclass(frozen=True, slots=True)
class Distances:
    """A row for each text."""

    kl_nats: Floats          # mean over the text's tokens, reference against candidate
    agreeing_ratio: Floats
    tokens: Floats


def distances(pairs: Sequence[tuple[Scores, Scores]]) -> Distances:
    """Of texts with at least one token each. Both of a pair are of the same tokens."""
    kl = np.array([divergence(a, b).mean() for a, b in pairs], dtype=np.float64)
    agreeing = np.array([same_first(a, b).mean() for a, b in pairs], dtype=np.float64)
    return Distances(kl, agreeing, np.array([len(a) for a, _ in pairs], dtype=np.float64))


def divergence(reference: Scores, candidate: Scores) -> Floats:
    """KL(reference ‖ candidate) in nats of each token (T,)."""
    alike = reference.top_ids[:, :, None] == candidate.top_ids[:, None, :]
    both = alike.any(axis=2)
    q_logps = np.where(both, np.take_along_axis(candidate.top_logps, alike.argmax(axis=2), axis=1), 0.0)
    p_logps = np.where(both, reference.top_logps, 0.0)
    p = np.where(both, np.exp(p_logps), 0.0)
    p_rest = np.clip(1 - p.sum(axis=1), LEAST, 1.0)
    q_rest = np.clip(1 - np.where(both, np.exp(q_logps), 0.0).sum(axis=1), LEAST, 1.0)
    found: Floats = (p * (p_logps - q_logps)).sum(axis=1) + p_rest * np.log(p_rest / q_rest)
    return np.maximum(found, 0.0)


def same_first(reference: Scores, candidate: Scores) -> Bools:
    """Does the candidate's likeliest token share the reference's first place? Two may share it exactly."""
    shared = reference.top_logps == reference.top_logps[:, :1]
    found: Bools = (shared & (reference.top_ids == candidate.top_ids[:, :1])).any(axis=1)
    return found


def mean_bounds(values: Floats, level: float, draws_count: int, random: np.random.Generator) -> tuple[float, float]:
    """Bounds of the mean, `level` on either side, by drawing texts again (percentile bootstrap)."""
    picked = random.integers(len(values), size=(draws_count, len(values)))
    low, high = np.quantile(values[picked].mean(axis=1), [level, 1 - level])
    return float(low), float(high)
