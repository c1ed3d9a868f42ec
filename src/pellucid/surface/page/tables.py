"""Tables and figures over all trials of a report: what came of each, what was refused, claims against outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.core.units import percent
from pellucid.surface.page import charts, trial
from pellucid.surface.page.figures import Figures
from pellucid.surface.page.html import Part, e, said, table
from pellucid.tune.events import Measure
from pellucid.tune.report.ending import change, goal_of
from pellucid.tune.report.shape import Claimed, Refusal, Report, Trial

MOST_NAME = 36      # characters beside a figure


def overview(report: Report, figures: Figures) -> Iterable[Part]:
    if report.kind == "trial":
        return
    if not report.trials:
        yield e("p", "No trial was started.")
        return
    goals = [(t, goal_of(t.speed.measures if t.speed else (), report.conditions.maximise)) for t in report.trials]
    known = [(t, m) for t, m in goals if m is not None and m.ratio is not None]
    if known:
        metric = known[0][1].metric
        drawn = [(_name(t), m, t.state == "kept") for t, m in known if m.metric == metric]
        yield figures.place(charts.verdicts(drawn), f"{metric}: change and interval of each trial")
    yield table(("trial", "candidate", "state", "speed", "change", "interval", "fidelity", "why"),
                (_row(t, m) for t, m in goals))  # fmt: skip


def _name(t: Trial) -> str:
    """Short enough for an axis."""
    words = f"{t.number} {t.proposed.candidate}"
    return words if len(words) <= MOST_NAME else f"{words[: MOST_NAME - 1]}…"


def _row(t: Trial, goal: Measure | None) -> tuple[Part, ...]:
    middle = None if goal is None or goal.ratio is None else change(goal.ratio)
    ends = None if goal is None else f"{change(goal.low_ratio)} to {change(goal.high_ratio)}"
    return (e("a", str(t.number), href=f"#trial-{t.number}"), said(t.proposed.candidate), trial.badge(t.state),
            t.speed.word if t.speed else None, middle, ends,
            t.answers.word if t.answers else None, said(t.why))  # fmt: skip


def refused(of: tuple[Refusal, ...]) -> Part:
    rows = [(said(r.proposed.candidate), trial.proposer(r.proposed), trial.claim(r.proposed.claim),
             said(r.proposed.why), said(f"{r.check}: {r.reason}")) for r in of]  # fmt: skip
    return table(("candidate", "proposed by", "claimed", "because", "refused"), rows) if rows else None


def claims(report: Report, figures: Figures) -> Iterable[Part]:
    if not report.claims:
        return
    if any(c.compared.outcome_ratio is not None for c in report.claims):
        yield figures.place(charts.claims(report.claims), "improvement: on the line it is as large as claimed")
    yield table(("trial", "claimed by", "metric", "claimed", "measured", "interval", "within the claim"),
                map(_claim, report.claims))  # fmt: skip
    yield table(("claimed by", "trials", "within the claim", "mean distance", "without an outcome"), [
        (said(s.source), str(s.trials_count), str(s.covered_count), _percent(s.mean_error_ratio),
         str(s.unmeasured_count)) for s in report.scores
    ])  # fmt: skip


def _claim(one: Claimed) -> tuple[Part, ...]:
    of = one.compared
    claimed = f"{percent(of.claim_low_ratio)} to {percent(of.claim_high_ratio)}"
    ends = f"{_percent(of.outcome_low_ratio) or 'open'} to {_percent(of.outcome_high_ratio) or 'open'}"
    covered = said(of.reason) if of.covered is None else "yes" if of.covered else "no"
    return (e("a", str(one.trial), href=f"#trial-{one.trial}"), said(of.source), said(of.metric), claimed,
            _percent(of.outcome_ratio), ends, covered)  # fmt: skip


def _percent(ratio: float | None) -> str | None:
    return None if ratio is None else percent(ratio)
