"""Values that the engine takes between two of its steps, on the thread that runs them.

    probe's thread ── put(owner, attribute, value) ──▶ waiting ──▶ apply(): at the start of the next schedule()

Written in the middle of schedule() a lower token budget would fail the engine's own assertion at its end, and kill it.
An idle engine takes a value with the step that ends its idleness; no step is made without it.

Drafts of named tasks are dropped here too: whatever the engine laid down for a request's next step, its own or
placeholders for those that stay in the worker, is gone before the step is planned. The step then has one token of it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, FrozenSet, Optional, Tuple

from pellucid_probe.guard import COST, now_ns
from pellucid_probe.vllm.labels import HEADER_TASK, task_of


class StepChanges:
    def __init__(self, steps: Any) -> None:
        self._steps = steps                         # `due` is looked at in each step, `scheduled` is the last one
        self._waiting: Deque[Tuple[Any, str, Any]] = deque()
        self.undrafted: FrozenSet[str] = frozenset()
        self.from_step: Optional[int] = None        # the first one with the newest values
        self.fault = ""

    def put(self, owner: Any, attribute: str, value: Any) -> None:
        """On the probe's thread."""
        self._waiting.append((owner, attribute, value))
        self._steps.due = self

    def read(self, owner: Any, attribute: str) -> Any:
        for waits, name, value in reversed(list(self._waiting)):
            if waits is owner and name == attribute:
                return value
        return getattr(owner, attribute)

    def in_force(self) -> Dict[str, Any]:
        return {"in_force": not self._waiting, "from_step": self.from_step, "fault": self.fault}

    def apply(self, scheduler: Any) -> None:
        """On the engine's thread, before it plans a step. Never raises."""
        start_ns = now_ns()
        try:
            self._steps.due = None              # before looking: what is put from now on sets it again
            while self._waiting:
                owner, attribute, value = self._waiting[0]
                setattr(owner, attribute, value)
                self._waiting.popleft()         # only now: a reader finds it here or there
                self.from_step = self._steps.scheduled + 1
            if self.undrafted:
                self._steps.due = self
                self._drop_drafts(scheduler)
        except Exception as error:
            self._waiting.clear()
            self.undrafted = frozenset()
            self.fault = f"{type(error).__name__}: {error}"[:300]
        COST.ns += now_ns() - start_ns

    def _drop_drafts(self, scheduler: Any) -> None:
        undrafted = self.undrafted
        for request in scheduler.running:
            if request.spec_token_ids:
                try:
                    task = request.pellucid_task
                except AttributeError:
                    task = request.pellucid_task = _task(request)
                if task in undrafted:
                    request.spec_token_ids = []     # a new list: placeholders are one list for all requests


def _task(request: Any) -> str:
    """As the client named it; "" where it did not."""
    extra = getattr(request.sampling_params, "extra_args", None)
    return task_of(extra) or (extra or {}).get(HEADER_TASK) or ""
