"""What was claimed beside what was measured: finished trials → a row for each, and a table for each rule or proposer.

    compared(trial)      Compared("queue.sequence_cap_binding", "output_tokens_per_s", 0.0, 0.3, 0.12, 0.05, 0.19, …)
    scores(trials)       [Score("queue.sequence_cap_binding", trials_count=4, covered_count=3, mean_error_ratio=0.08)]

Claims and outcomes are relative improvements: 0.3 is 30 % less, or more where more is better. Covered: the claimed
range and the outcome's interval have something in common, so the measurement does not refute the claim. The error is
the distance of the outcome from the middle of the claimed range.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.catalog.load import metrics
from pellucid.tune.events import Measure
from pellucid.tune.state import Trial

# Metrics of claims by the name that the judge of speed has for the same definition (docs/definitions.md).
MEASURED_AS = {"itl_mean_ns": "tpot_mean_ns"}


@dataclass(frozen=True, slots=True)
class Compared:
    source: str                    # the rule, or the proposer
    metric: str
    claim_low_ratio: float
    claim_high_ratio: float
    outcome_ratio: float | None
    outcome_low_ratio: float | None
    outcome_high_ratio: float | None
    covered: bool | None           # None: no outcome
    reason: str                    # why there is none; "" where there is


@dataclass(frozen=True, slots=True)
class Score:
    source: str
    trials_count: int              # with a claim that an outcome stands beside
    covered_count: int
    mean_error_ratio: float | None
    unmeasured_count: int          # with a claim and without an outcome


def compared(trial: Trial) -> Compared | None:
    """None where nothing was claimed."""
    claim = trial.proposal.claim
    if claim is None:
        return None
    outcome, reason = _outcome(trial, claim.metric)
    middle, low, high = outcome or (None, None, None)
    covered = None
    if low is not None and high is not None:
        covered = low <= claim.high_ratio and high >= claim.low_ratio
    return Compared(trial.proposal.source or trial.proposal.proposer, claim.metric, claim.low_ratio, claim.high_ratio,
                    middle, low, high, covered, reason)  # fmt: skip


def scores(trials: Iterable[Trial]) -> list[Score]:
    """By source, those with most trials first."""
    rows: dict[str, list[Compared]] = {}
    for trial in trials:
        if (row := compared(trial)) is not None:
            rows.setdefault(row.source, []).append(row)
    return sorted((_score(source, of) for source, of in rows.items()), key=lambda s: (-s.trials_count, s.source))


def improvement(metric: str, ratio: float) -> float:
    """Candidate over present → how much better: 0.3 is 30 % less, or more where more is better."""
    return ratio - 1 if metrics()[metric].better == "higher" else 1 - ratio


def _score(source: str, rows: list[Compared]) -> Score:
    seen = [r for r in rows if r.covered is not None]
    errors = [abs(r.outcome_ratio - (r.claim_low_ratio + r.claim_high_ratio) / 2)
              for r in seen if r.outcome_ratio is not None]  # fmt: skip
    return Score(source, len(seen), sum(r.covered is True for r in seen),
                 sum(errors) / len(errors) if errors else None, len(rows) - len(seen))  # fmt: skip


def _outcome(trial: Trial, metric: str) -> tuple[tuple[float | None, float, float] | None, str]:
    if trial.speed is None:
        return None, "the trial came to no verdict"
    name = MEASURED_AS.get(metric, metric)
    found = next((m for m in trial.speed.measures if m.metric == name), None)
    if found is None:
        return None, f"{name} was not measured in the trial"
    if found.low_ratio is None or found.high_ratio is None:
        return None, f"{name} came to no interval"
    ends = sorted((improvement(metric, found.low_ratio), improvement(metric, found.high_ratio)))
    return (_middle(metric, found), ends[0], ends[1]), ""


def _middle(metric: str, found: Measure) -> float | None:
    return None if found.ratio is None else improvement(metric, found.ratio)
