"""The verdict on fidelity: what was found in each task, what would have been found, and beside what floor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pellucid.core.units import percent
from pellucid.surface.page.html import Part, bullets, e, said, table
from pellucid.tune.fidelity.verdict import Fidelity, Forced, Task
from pellucid.tune.report.shape import Answers


def answers(of: Answers | None) -> Iterable[Part]:
    yield e("h4", "Fidelity")
    if of is None:
        yield e("p", "Not judged.")
        return
    yield e("p", e("b", of.word), ": ", said(of.says))
    if of.detail is not None:
        yield from _detail(of.detail)


def _detail(of: Fidelity) -> Iterable[Part]:
    if of.prompts:
        yield e("p", "Judged by: ", said(of.prompts), ".")
    if of.tasks:
        yield table(("task", "verdict", "prompts", "answers, candidate and reference", "smallest corruption found",
                     "prompts needed"), map(_task, of.tasks))  # fmt: skip
        heads = ("task", "statistic", "difference, 95 %", "p", "reference against itself", "p")
        yield table(heads, _differences(of.tasks))
    if of.forced is not None:
        yield e("p", "The same tokens shown to both: ", e("b", of.forced.word), ", ", said(of.forced.reason), ". ",
                _forced(of.forced))  # fmt: skip
    yield bullets(map(said, of.notes))


def _task(of: Task) -> Sequence[Part]:
    smallest = of.smallest_found_ratio
    found = "not even all of its tokens" if smallest is None else f"{percent(smallest)} of tokens"
    needed = None if of.prompts_needed_count is None else f"{of.prompts_needed_count:,}"
    counts = f"{of.candidate_answers_count:,} and {of.reference_answers_count:,}"
    verdict = e("span", e("b", of.word), ": ", said(of.reason))
    return said(of.task), verdict, f"{of.prompts_count:,}", counts, found, needed


def _differences(tasks: Sequence[Task]) -> Iterable[Sequence[Part]]:
    for task in tasks:
        for d in task.differences:
            measured = f"{d.difference:+.3g} ({d.low:+.3g} to {d.high:+.3g}) {d.unit}"
            floor = f"{d.floor_difference:+.3g} {d.unit}"
            yield said(task.task), said(d.name), measured, f"{d.p_adjusted:.3g}", floor, f"{d.floor_p_adjusted:.3g}"


def _forced(of: Forced) -> str:
    return (f"KL {of.kl_nats:.3g} ({of.low:.3g} to {of.high:.3g}) nats a token, limit {of.limit_nats:.3g}, the "
            f"reference against itself {of.floor_kl_nats:.3g}; the likeliest token agrees in "
            f"{of.agreeing_ratio:.4f} of them, the reference's in {of.floor_agreeing_ratio:.4f}; "
            f"{of.texts_count:,} texts, {of.tokens_count:,} tokens.")  # fmt: skip
