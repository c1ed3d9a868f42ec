"""What a trial finds → the events that the loop decides by.

    speed(1, outcome)      SpeedJudged(1, "better", measures=(Measure("output_tokens_per_s", 1.31, 1.24, 1.38, …),), …)
                           Broke("candidate", "the candidate does not boot: …")
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, get_args

from pellucid.tune import events as e
from pellucid.tune.effect.judge import Effect, MetricEffect
from pellucid.verbs.loop.trial.outcome import FILE, Outcome


def peeks(trial: int, looks: Generator[Effect, None, Outcome]) -> Generator[e.AnyEvent, None, Outcome]:
    """The verdict so far after each pair, while the trial runs; its outcome at the end. Closed, it closes the trial."""
    with closing(looks):
        while True:
            try:
                found = next(looks)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            yield e.Peeked(trial, found.pairs_count, found.word, _measures(found))


def speed(trial: int, outcome: Outcome) -> e.SpeedJudged | e.Broke:
    """Trouble of the candidate is its end; without a pair there is no verdict, which is no reason to keep anything."""
    if outcome.word not in get_args(e.SpeedWord):
        return e.Broke("candidate", outcome.reason, _evidence(outcome))
    effect = outcome.effect
    return e.SpeedJudged(
        trial, outcome.word, measures=_measures(effect), guards=_guards(effect),  # type: ignore[arg-type]
        pairs_count=len(outcome.pairs), duration_ns=outcome.took_ns,
        minutes_needed=effect.minutes_needed if effect else None,
        evidence=_evidence(outcome),
    )  # fmt: skip


def _evidence(outcome: Outcome) -> dict[str, Any]:
    return {"reason": outcome.reason, "outcome": str(outcome.folder / FILE), "notes": list(outcome.notes)}


def _measures(effect: Effect | None) -> tuple[e.Measure, ...]:
    return tuple(_measure(m) for m in effect.metrics) if effect else ()


def _measure(metric: MetricEffect) -> e.Measure:
    if not metric.points:
        return e.Measure(metric.metric, None, None, None, metric.word)
    last = metric.points[-1]
    return e.Measure(metric.metric, last.ratio, last.low_ratio, last.high_ratio, metric.word)


def _guards(effect: Effect | None) -> tuple[e.Held, ...]:
    """The judge says `better` only where each guard was shown to keep its margin."""
    if effect is None:
        return ()
    return tuple(_guard(m, effect.word == "better") for m in effect.metrics[1:])


def _guard(metric: MetricEffect, shown: bool) -> e.Held:
    held = True if shown else False if metric.word == "worse" else None
    last = metric.points[-1] if metric.points else None
    says = f"× {last.ratio:.3f}" if last and last.ratio is not None else "not seen"
    return e.Held(metric.metric, held, f"{says}, within a margin of {metric.margin_ratio:.0%}" if held else says)
