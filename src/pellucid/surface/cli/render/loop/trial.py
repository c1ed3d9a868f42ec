"""The outcome of a trial on one screen.

    verdict     worse: output_tokens_per_s × 0.412 (0.371 to 0.460) after 11 pairs
    tried       max_running_requests=1, against the command as it is
    where       core 0 and core 1 of x86_64, AMD EPYC; an engine and its version, model
    starts      0 trial, 11 pairs · 1 noise, 4 pairs · …
"""

from __future__ import annotations

from rich.table import Table

from pellucid.core.units import counted, duration, percent
from pellucid.surface.cli.render.page import grid
from pellucid.tune.effect.judge import MetricEffect
from pellucid.verbs.loop.trial.outcome import Outcome


def screen(outcome: Outcome) -> Table:
    said, table = outcome.conditions, grid(label_width=11)
    table.add_row("verdict", f"{outcome.word}: {outcome.reason}")
    for trouble in outcome.troubles:
        table.add_row("", "\n".join(trouble.log_tail))
    answers = outcome.fidelity
    blind = f"not judged: {outcome.fidelity_blind}"
    table.add_row("answers", f"{answers.word}: {answers.reason}" if answers else blind)
    if answers and answers.prompts:
        table.add_row("", f"judged by {answers.prompts}")
    table.add_row("tried", f"{outcome.candidate}, against the command as it is")
    if outcome.effect:
        for metric in outcome.effect.metrics:
            table.add_row(metric.metric, _metric(metric, len(said.places)))
        if outcome.effect.minutes_needed:
            table.add_row("needed", f"about {outcome.effect.minutes_needed:.0f} more minutes of measuring")
    table.add_row("where", f"{' and '.join(said.places)} of {said.machine}; {said.engine} {said.engine_version}, {said.model}")  # noqa: E501
    how = ", ".join(f"{name} {value:g}" for name, value in said.traffic.items() if value is not None)
    table.add_row("traffic", f"{said.workload}, blocks of {duration(said.block_ns)}; {how}")
    for reason, count in said.left_out.items():
        table.add_row("left out", f"{counted(count, 'requests')} {reason}")
    starts = [f"{s.number} {s.kind}, {counted(s.pairs_count, 'pairs')}" for s in outcome.starts]
    table.add_row("starts", " · ".join(starts) or "none got as far as traffic")
    for note in outcome.notes:
        table.add_row("note", note)
    table.add_row("kept in", f"{outcome.folder}, after {duration(outcome.took_ns)}")
    return table


def _metric(metric: MetricEffect, engines_count: int) -> str:
    if not metric.points:
        return "no pair has it"
    last = metric.points[-1]
    ends = " to ".join("open" if end is None else f"{end:.3f}" for end in (last.low_ratio, last.high_ratio))
    bias = "unknown" if metric.bias_ratio is None else percent(metric.bias_ratio)
    ratio = "not known" if last.ratio is None else f"{last.ratio:.3f}"
    alone = "" if engines_count == 1 else f"; two engines alone may differ by: {bias}"
    return f"× {ratio} ({ends}){alone}"
