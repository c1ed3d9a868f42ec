"""A verdict on fidelity on one screen.

    same        all: surprise differs by -0.021 to +0.030 nats per token, within ±0.05; …
    code        inconclusive: surprise differs by -0.14 to +0.17 nats per token; ±0.15 was not shown
    shown       KL 0 nats per token (0 to 0; limit 0.02), the likeliest token is the same in 100.0%
"""

from __future__ import annotations

from rich.console import Group
from rich.table import Table

from pellucid.core.units import duration, percent
from pellucid.surface.cli.render.page import grid
from pellucid.verbs.loop.fidelity import Fidelity


def screen(found: Fidelity) -> Group:
    head = grid(label_width=12)
    head.add_row(found.word, found.reason)
    for task in found.tasks:
        answers = f"{task.candidate_answers_count} + {task.reference_answers_count} answers"
        counts = f"{task.prompts_count} prompts, {answers}"
        power = "no corruption would be found" if task.smallest_found_ratio is None else (
            f"finds {percent(task.smallest_found_ratio)} of tokens corrupted")
        needed = f"; {task.prompts_needed_count} prompts would do" if task.prompts_needed_count else ""
        head.add_row(task.task, f"{task.word}: {task.reason} ({counts}; {power}{needed})")
    if found.forced:
        head.add_row("shown", f"{found.forced.word}: {found.forced.reason}")
    if found.prompts:
        head.add_row("prompts", found.prompts)
    for note in found.notes:
        head.add_row("note", note)
    head.add_row("took", duration(found.took_ns))
    return Group(head, *([_differences(found)] if found.tasks else []))


def _differences(found: Fidelity) -> Table:
    """Candidate - reference, beside what the reference differs from itself by; without what is equal in all answers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("task", "statistic", "difference", "from", "to", "p", "A/A", "p of A/A"):
        table.add_column(name, justify="left" if name in ("task", "statistic") else "right", no_wrap=True)
    for task in found.tasks:
        for row in (r for r in task.differences if r.low < r.high or r.floor_difference):
            table.add_row(
                task.task, f"{row.name}, {row.unit}", f"{row.difference:+.3f}", f"{row.low:+.3f}", f"{row.high:+.3f}",
                f"{row.p_adjusted:.2g}", f"{row.floor_difference:+.3f}", f"{row.floor_p_adjusted:.2g}",
            )  # fmt: skip
    return table
