"""Drafts of one engine core, request by request and step by step → rows of `speculation`, by task and window.

    speculation.take(step_row, [(request, drafted, produced), …])      when the step's row goes out
    …
    speculation.emit_older_than(time_ns)                               windows that ended before

A draft's first `produced - 1` tokens were kept: the last token produced is the model's own. By the time a step's row
goes out its frontend has spoken, so the task is known. Many tasks do not make many rows: the largest have their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pellucid.collect.request import Request
from pellucid.core.units import S_NS
from pellucid.store.schema import SPECULATION
from pellucid.store.write import Row

WINDOW_NS = 5 * S_NS    # a few in each of the windows that a diagnosis looks at in a recording of a minute
TASKS = 64              # with rows of their own in one window

Draft = tuple[Request, int, int]    # drafted, produced


@dataclass(slots=True)
class Drafted:
    """What a task drafted in a window. Lists are by position, from 1 on."""

    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    outputs: int = 0
    gap_ns: int = 0
    step_drafts: int = 0
    step_draft_ns: int | None = 0       # None once a step did not tell

    def draft(self, drafted: int, produced: int) -> None:
        self._reach(drafted)
        for position in range(drafted):
            self.drafted[position] += 1
        for position in range(min(drafted, produced - 1)):
            self.accepted[position] += 1
        self.outputs += produced

    def step(self, gap_ns: int, drafts: int, draft_ns: int | None) -> None:
        self.gap_ns += gap_ns
        self.step_drafts += drafts
        self.step_draft_ns = None if draft_ns is None or self.step_draft_ns is None else self.step_draft_ns + draft_ns

    def add(self, other: Drafted) -> None:
        self._reach(len(other.drafted))
        for position, (drafted, accepted) in enumerate(zip(other.drafted, other.accepted, strict=True)):
            self.drafted[position] += drafted
            self.accepted[position] += accepted
        self.outputs += other.outputs
        self.step(other.gap_ns, other.step_drafts, other.step_draft_ns)

    def _reach(self, position: int) -> None:
        longer = position - len(self.drafted)
        self.drafted += [0] * longer
        self.accepted += [0] * longer

    def positions(self) -> Iterable[dict[str, Any]]:
        for position, (drafted, accepted) in enumerate(zip(self.drafted, self.accepted, strict=True), start=1):
            row: dict[str, Any] = {"position": position, "drafted_count": drafted, "accepted_count": accepted}
            if position == 1:
                row |= {"output_tokens": self.outputs, "gap_ns": self.gap_ns,
                        "step_draft_tokens": self.step_drafts, "step_draft_ns": self.step_draft_ns}  # fmt: skip
            yield row


@dataclass(slots=True)
class Speculation:
    append: Callable[[str, Row], None]
    provenance: Callable[[], dict[str, Any]]
    _windows: dict[int, dict[str, Drafted]] = field(default_factory=dict)    # start → task → what it drafted
    _before: tuple[int, int] = (0, 0)      # the last step and its end

    def take(self, step: dict[str, Any], drafts: list[Draft]) -> None:
        """Every step in order, also without drafts: the next one's gap begins where it ended."""
        number, end_ns = step["step"], step["end_ns"]
        before, before_ns = self._before
        self._before = (number, end_ns)
        if not drafts:
            return
        went_on = before == number - 1 and step.get("host_gap_ns") is not None    # not idle in between
        gap_ns = end_ns - (before_ns if went_on else step["start_ns"])
        in_step = sum(drafted for _, drafted, _ in drafts)
        window = self._windows.setdefault(end_ns - end_ns % WINDOW_NS, defaultdict(Drafted))
        for request, drafted, produced in drafts:
            of_task = window[request.task()[0]]
            of_task.draft(drafted, produced)
            of_task.step(gap_ns, in_step, step.get("draft_ns"))

    def emit_older_than(self, time_ns: int) -> None:
        for start_ns in [start_ns for start_ns in self._windows if start_ns + WINDOW_NS <= time_ns]:
            self._emit(start_ns, self._windows.pop(start_ns))

    def _emit(self, start_ns: int, tasks: dict[str, Drafted]) -> None:
        by_size = sorted(tasks.items(), key=lambda item: (-sum(item[1].drafted), item[0]))
        rest = Drafted()
        for _, drafted in by_size[TASKS:]:
            rest.add(drafted)
        for task, seen in [*by_size[:TASKS], (None, rest)]:
            for position in seen.positions():
                row = {**self.provenance(), "task": task, "start_ns": start_ns, "end_ns": start_ns + WINDOW_NS,
                       **position}  # fmt: skip
                self.append("speculation", tuple(row.get(name) for name in SPECULATION.names()))
