"""What the engine's own scheduler said on virtual time: a child's lines → steps as arrays, requests with their times.

    step  start_ns  end_ns   prefill_tokens  decode_count      request  scheduled_ns  first_token_ns  token_steps
    0     0         9000000  256             0                 0        0             13000000        ((1, 1), (3, 9))
    1     9000000   …        44              0

Names are the store's where it has the thing. Times are ns of the virtual clock, on which requests arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.collect.vllm.schedule_lines import End, PlannedStep, Ready, Refused, RequestLine
from pellucid.core.errors import Failed

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Steps:
    """A value for each step, in order."""

    start_ns: Numbers
    end_ns: Numbers
    prefill_count: Numbers
    prefill_tokens: Numbers
    decode_count: Numbers
    decode_context_tokens: Numbers
    running_count: Numbers
    waiting_count: Numbers
    preempted_count: Numbers
    kv_used_blocks_count: Numbers


@dataclass(frozen=True, slots=True)
class Served:
    request: int                 # its place among those asked, from 0 on
    arrival_ns: int
    queued_ns: int               # the engine took it in: before the first step planned at or after its arrival
    scheduled_ns: int            # start of the first step that computed a token of it
    first_token_ns: int          # end of the step that sampled it
    last_token_ns: int
    token_steps: tuple[tuple[int, int], ...]     # first and last of consecutive steps that gave it a token each
    preemptions_count: int
    cached_tokens: int           # of the prompt, found in the cache when it was scheduled first
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Scheduled:
    engine_version: str
    settings: dict[str, bool | int | float | str]      # as the engine took them, in its names
    notes: tuple[str, ...]                             # what a reader of the numbers has to know
    served: tuple[Served, ...]                         # in order of request
    refused: tuple[Refused, ...]                       # in order of request
    steps: Steps


def token_ns(one: Served, steps: Steps) -> Numbers:
    """When each of its tokens was there: the ends of their steps."""
    return np.concatenate([steps.end_ns[first : last + 1] for first, last in one.token_steps])


@dataclass(slots=True)
class Gathered:
    """Lines as they come. `arrivals_ns` is of all requests asked."""

    arrivals_ns: Sequence[int]
    _steps: list[tuple[int, ...]]
    _served: list[RequestLine]
    _refused: list[Refused]

    @classmethod
    def of(cls, arrivals_ns: Sequence[int]) -> Gathered:
        return cls(arrivals_ns, [], [], [])

    def step(self, line: PlannedStep, took_ns: int) -> None:
        self._steps.append((
            line.start_ns, line.start_ns + took_ns, len(line.prefills), sum(p.tokens for p in line.prefills),
            line.decode_count, line.decode_context_tokens, line.running_count, line.waiting_count,
            line.preempted_count, line.kv_used_blocks_count,
        ))  # fmt: skip

    def served(self, line: RequestLine) -> None:
        self._served.append(line)

    def refused(self, line: Refused) -> None:
        self._refused.append(line)

    def steps_count(self) -> int:
        return len(self._steps)

    def result(self, ready: Ready, end: End) -> Scheduled:
        """Raises Failed where the lines do not agree with what the child says of them."""
        self._check(end)
        columns = np.array(self._steps, dtype=np.int64).reshape(-1, len(Steps.__slots__)).T
        steps = Steps(*map(np.ascontiguousarray, columns))
        try:
            served = tuple(self._times(line, steps) for line in sorted(self._served, key=lambda line: line.request))
        except IndexError as error:
            raise Failed("a request was told to have been in a step that was not") from error
        refused = tuple(sorted(self._refused, key=lambda line: line.request))
        return Scheduled(ready.engine_version, ready.settings, ready.notes, served, refused, steps)

    def _check(self, end: End) -> None:
        numbers = [line.request for line in self._served] + [line.request for line in self._refused]
        if sorted(numbers) != list(range(len(self.arrivals_ns))):
            raise Failed(f"{len(numbers):,} of {len(self.arrivals_ns):,} requests were answered, or some twice")
        seen = (len(self._steps), len(self._served), len(self._refused))
        if seen != (end.steps_count, end.served_count, end.refused_count):
            raise Failed(f"steps, served and refused: {seen} were told, {end} was said of them")

    def _times(self, line: RequestLine, steps: Steps) -> Served:
        arrival_ns, runs = self.arrivals_ns[line.request], line.token_steps
        queued = int(np.searchsorted(steps.start_ns, arrival_ns))
        return Served(
            line.request, arrival_ns, queued_ns=int(steps.start_ns[queued]),
            scheduled_ns=int(steps.start_ns[line.first_step]), first_token_ns=int(steps.end_ns[runs[0][0]]),
            last_token_ns=int(steps.end_ns[runs[-1][1]]), token_steps=runs, preemptions_count=line.preemptions_count,
            cached_tokens=line.cached_tokens, finish_reason=line.finish_reason,
        )  # fmt: skip
